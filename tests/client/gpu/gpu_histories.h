#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/runner/fence.h"
#include "tests/transport/cuda/fake/results.h"

// Of the seeded histories of gpu_property_test.cc.
namespace farpage {

inline constexpr uint64_t kKeys = 24;     // that have a page
inline constexpr uint64_t kAllKeys = 32;  // that are asked for
inline constexpr uint64_t kMostPages = 40;
inline constexpr uint64_t kFetches = 6;
inline constexpr uint64_t kPuts = 4;
inline constexpr uint64_t kOperations = kFetches + kPuts;
inline constexpr uint64_t kGpuPages = kOperations * kMostPages;
inline constexpr uint64_t kPieces = 4;  // of a page, where memory is paged
inline constexpr uint64_t kPieceBytes = kPageBytes / kPieces;

// Calls that fail once, on the way of registering or of fetching, and what with: of these results
// some end the context.
inline constexpr std::array kCalls = {"cuDevicePrimaryCtxRetain",
                                      "cuPointerGetAttributes",
                                      "cuMemGetAddressRange_v2",
                                      "cuMemHostRegister_v2",
                                      "cuStreamCreate",
                                      "cuEventCreate",
                                      "cuCtxSetCurrent",
                                      "cuMemcpyHtoDAsync_v2",
                                      "cuMemcpyDtoHAsync_v2",
                                      "cuMemcpyBatchAsync_v2",
                                      "cuEventRecord",
                                      "cuEventQuery",
                                      "cuModuleLoadData",
                                      "cuStreamWaitEvent",
                                      "cuLaunchKernel",
                                      "cuMemAlloc_v2",
                                      "cuMemGetHandleForAddressRange",
                                      "cuFlushGPUDirectRDMAWrites",
                                      "cuStreamWaitValue64_v2",
                                      "cuMemcpyDtoDAsync_v2"};
inline constexpr std::array kResults = {
    cuda::kInvalidValue,   cuda::kOutOfMemory, 802, cuda::kInvalidHandle, 999,
    cuda::kIllegalAddress, cuda::kLaunchFailed};

struct Totals {
  uint64_t ready = 0;
  uint64_t recompute = 0;
  uint64_t held = 0;     // tickets that were done and not released
  uint64_t refused = 0;  // registrations
  uint64_t ended = 0;    // contexts
  uint64_t untouched = 0;
  uint64_t put = 0;        // pages
  uint64_t not_put = 0;    // ... of which there is none, either
  uint64_t lent = 0;       // puts that were done and not released
  uint64_t scattered = 0;  // pages that were checked on their way to their blocks
  uint64_t spoiled = 0;    // by a copy, or before
  uint64_t gathered = 0;   // launches of the kernel, beside that of a registration
  uint64_t misread = 0;    // puts whose work a kernel read wrongly
};

// A fence whose words nobody waits at.
struct FencedMemory {
  const farpage_fence_words& words() const {
    return *reinterpret_cast<const farpage_fence_words*>(memory.data());
  }

  std::vector<std::byte> memory = std::vector<std::byte>(Fence::bytes_for(kMostPages));
  Fence fence{memory, kMostPages};
};

}  // namespace farpage
