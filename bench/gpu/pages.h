#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "bench/gpu/gpu.h"
#include "integrity/page_header.h"

namespace farpage::gpu_bench {

inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kPageBytes = 64 * 1024;
inline constexpr uint64_t kSlotBytes = kHeaderBytes + kPageBytes;
inline constexpr uint64_t kIncarnation = 0x1122334455667788;

// `count` slots of random pages (docs/formats/slot.md), one after the other. Page i has the key
// {i, ~i} and the version (1, i + 1).
struct Slots {
  std::vector<std::byte> bytes;
  std::vector<uint32_t> crcs;

  Slots(uint32_t count, uint64_t seed);
  std::byte* slot(uint64_t i) { return bytes.data() + i * kSlotBytes; }
};

void fill_random(void* memory, uint64_t bytes, uint64_t seed);

// The kernels that fuse check and scatter, and the scatters alone, that this GPU can run.
struct FusedWay {
  const char* name;
  cuda::FusedKernel kernel;
};
std::vector<FusedWay> fused_ways(const Gpu& gpu);
struct ScatterWay {
  const char* name;
  Scatter scatter;
};
std::vector<ScatterWay> scatter_ways(const Gpu& gpu);

// What a reader expects of page `i`, whose slot lies at the device's address `slot`.
cuda::PageItem expected_page(uint32_t i, uint64_t slot, uint32_t block);

}  // namespace farpage::gpu_bench
