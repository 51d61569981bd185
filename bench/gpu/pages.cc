#include "bench/gpu/pages.h"

#include "integrity/crc32c.h"
#include "transport/cuda/kernels/header_check.h"

namespace farpage::gpu_bench {

void fill_random(void* memory, uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto* at = static_cast<unsigned char*>(memory);
  for (uint64_t done = 0; done < bytes; done += 8) {
    const uint64_t word = random();
    std::memcpy(at + done, &word, std::min<uint64_t>(8, bytes - done));
  }
}

Slots::Slots(uint32_t count, uint64_t seed) : bytes(count * kSlotBytes), crcs(count) {
  fill_random(bytes.data(), bytes.size(), seed);
  for (uint32_t i = 0; i < count; ++i) {
    crcs[i] = crc32c(0, slot(i) + kHeaderBytes, kPageBytes);
    const PageKey key{i, ~uint64_t{i}};
    const Version version = make_version(1, i + 1);
    PageHeader header = make_page_header(key, version, kIncarnation, kPageBytes, crcs[i]);
    header.live = live_token(key, version, kIncarnation);
    std::memcpy(slot(i), &header, sizeof header);
  }
}

std::vector<FusedWay> fused_ways(const Gpu& gpu) {
  std::vector<FusedWay> ways{{"pages_read_twice", cuda::FusedKernel::kReadTwice}};
  if (cuda::choose_fused_kernel(gpu.kernels().device(), kPageBytes) ==
      cuda::FusedKernel::kThroughShared) {
    ways.push_back({"pages_through_shared", cuda::FusedKernel::kThroughShared});
  }
  return ways;
}

std::vector<ScatterWay> scatter_ways(const Gpu& gpu) {
  std::vector<ScatterWay> ways{{"scatter_by_loads", Scatter::kByLoads}};
  if (fused_ways(gpu).size() > 1) {
    ways.push_back({"scatter_through_shared", Scatter::kThroughShared});
  }
  return ways;
}

cuda::PageItem expected_page(uint32_t i, uint64_t slot, uint32_t block) {
  cuda::PageItem page;
  page.header = slot;
  page.payload = slot + kHeaderBytes;
  page.key_low = i;
  page.key_high = ~uint64_t{i};
  page.version = make_version(1, i + 1);
  page.incarnation = kIncarnation;
  page.payload_bytes = kPageBytes;
  page.block = block;
  page.check = cuda::item_check(page);
  return page;
}

}  // namespace farpage::gpu_bench
