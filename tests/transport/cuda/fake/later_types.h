#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/cuda/driver.h"

namespace farpage::cuda {

// Of cuda.h, for later_entries.inc.
using HostFunction = void (*)(void* argument);
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
inline constexpr int kPointerDeviceAddress = 3;
inline constexpr int kPointerHostAddress = 4;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeBytes = 12;
inline constexpr int kPointerMapped = 13;
inline constexpr int kPointerRdmaCapable = 15;

struct MemoryLocation {
  int type = 1;  // a device
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // pinned
  int handle_types = 0;
  MemoryLocation location;
  void* metadata = nullptr;
  unsigned char compression = 0;
  unsigned char rdma_capable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct MemoryAccess {
  MemoryLocation location;
  int flags = 3;  // read and write
};

inline constexpr unsigned kWaitEqual = 1;
inline constexpr unsigned kWaitAnd = 2;

struct LaterDriver {
#define FARPAGE_CUDA_ENTRY(member, symbol, ...) \
  std::add_pointer_t<int(__VA_ARGS__)> member = nullptr;
#include "tests/transport/cuda/fake/later_entries.inc"
#undef FARPAGE_CUDA_ENTRY
};

}  // namespace farpage::cuda
