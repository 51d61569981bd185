#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace farpage::cuda {

using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;

// CUmemcpyAttributes: of copies that are given together.
struct CopyAttributes {
  int source_order =
      1;                // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: sources are read in the stream's order
  int source_type = 0;  // hints, of managed memory alone
  int source_id = 0;
  int target_type = 0;
  int target_id = 0;
  unsigned flags = 0;
};

// The driver's entry points, found when the program runs: it needs neither the driver nor CUDA's
// headers to be built, and starts on hosts that have none.
struct Driver {
#define FARPAGE_CUDA_ENTRY(member, symbol, ...) \
  std::add_pointer_t<int(__VA_ARGS__)> member = nullptr;
#include "transport/cuda/driver_entries.inc"
#undef FARPAGE_CUDA_ENTRY
};

inline constexpr int kSuccess = 0;       // CUDA_SUCCESS
inline constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE
inline constexpr int kNotFound = 500;    // CUDA_ERROR_NOT_FOUND
inline constexpr int kNotReady = 600;    // CUDA_ERROR_NOT_READY

// Of CUpointer_attribute and CUmemorytype, and flags of streams, events and registered memory.
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDevice = 9;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventWithoutTiming = 2;
inline constexpr unsigned kRegisterPortable = 1;
inline constexpr unsigned kRegisterDeviceMap = 2;  // and of cuMemHostAlloc
inline constexpr unsigned kRegisterReadOnly = 8;
inline constexpr unsigned kWaitGreaterOrEqual = 0;
inline constexpr unsigned kWaitFlush = 1u << 30;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kDmaBufDescriptor = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
inline constexpr int kFlushCurrentContext = 0;
inline constexpr int kFlushToOwner = 100;

// Of CUdevice_attribute and CUfunction_attribute.
inline constexpr int kComputeMajor = 75;
inline constexpr int kSharedBytesPerBlock = 97;  // that a kernel can ask for
inline constexpr int kReadOnlyRegistration = 113;
inline constexpr int kNicsReach = 116;       // GPUDirect RDMA
inline constexpr int kFlushOptions = 117;    // bits: by the host 1, in streams 2
inline constexpr int kWritesOrdering = 118;  // of NICs: none 0, for the owner 100, for all 200
inline constexpr int kDmaBufs = 124;
inline constexpr int kMostDynamicSharedBytes = 8;

// The entry points of that library, which stays loaded until the process ends. Any thread. It fails
// with a sentence that says what to install where there is no driver, or one that lacks an entry.
Result<Driver> load_driver(const char* library = "libcuda.so.1");

// Whether the context has ended after this result, and with it all that its device still did:
// cuda.h says of these that it cannot be used any more, or that all further work fails. It does not
// of 201, 214, 400 or 999.
bool ends_context(int result);
// A context from which nothing else comes for so long counts as ended: otherwise nothing would end
// a wait for its work.
inline constexpr uint64_t kDoubtNs = 1'000'000'000;

// `what: CUDA_ERROR_NAME: text`, for a result that is not kSuccess.
std::string driver_error(const Driver& driver, int result, const std::string& what);

}  // namespace farpage::cuda
