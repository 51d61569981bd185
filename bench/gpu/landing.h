#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "bench/gpu/pages.h"

namespace farpage::gpu_bench {

inline constexpr uint32_t kBatch = 256;
inline constexpr uint32_t kRing = 8;
inline constexpr int kBatches = 64;
inline constexpr int kBatchRounds = 5;
inline constexpr uint64_t kBatchBytes = kBatch * kPageBytes;
inline constexpr uint64_t kBatchSlotBytes = kBatch * kSlotBytes;
inline constexpr uint32_t kPieces = 16;

// Where batches land on the GPU: a staging place and a place in the pool for each of a ring.
struct Landing {
  const Gpu& gpu;
  DeviceMemory staged;
  DeviceMemory pool;
  DeviceMemory base_table;
  DeviceMemory items;
  PinnedMemory findings;

  explicit Landing(const Gpu& used)
      : gpu(used),
        staged(used, kRing * kBatchSlotBytes),
        pool(used, kRing * kBatchBytes),
        base_table(used, kPieces * 8),
        items(used, kRing * kBatch * sizeof(cuda::PageItem)),
        findings(used, kRing * kBatch) {
    std::vector<uint64_t> bases(kPieces);
    for (uint32_t i = 0; i < kPieces; ++i) {
      bases[i] = pool.at(uint64_t{i} * kRing * kBatch * (kPageBytes / kPieces));
    }
    base_table.put(bases.data(), kPieces * 8);
  }

  // The check of batch `ring`, whose items lie at the device's address `from`.
  void check(const Stream& stream, uint32_t ring, uint64_t from) const {
    expect_started(gpu.kernels().check_and_scatter(
        stream.get(), {from,
                       kBatch,
                       kPageBytes,
                       {reinterpret_cast<const uint64_t*>(base_table.at()), kPageBytes / kPieces,
                        kPieces, kPageBytes / kPieces},
                       {reinterpret_cast<uint8_t*>(findings.device_address() + ring * kBatch),
                        nullptr, nullptr}}));
  }

  uint32_t not_good(uint32_t ring) const {
    uint32_t count = 0;
    for (uint32_t i = 0; i < kBatch; ++i) {
      count += findings.data()[ring * kBatch + i] != std::byte{0};
    }
    return count;
  }
};

// Batches one after the other, at most kRing under way: `issue(batch, ring)` puts one on its way
// and ends with a record of events[ring]; `settle(batch, ring)` is called when it has arrived.
template <typename Issue, typename Settle>
Times time_batches(const Gpu& gpu, const Issue& issue, const Settle& settle) {
  std::deque<Event> events;
  for (uint32_t i = 0; i < kRing; ++i) events.emplace_back(gpu);
  std::vector<double> times_us;
  for (int round = 0; round <= kBatchRounds; ++round) {
    const double begin_us = now_us();
    for (uint32_t batch = 0; batch < kBatches + kRing; ++batch) {
      const uint32_t ring = batch % kRing;
      if (batch >= kRing) {
        events[ring].wait();
        settle(batch - kRing, ring);
      }
      if (batch < kBatches) issue(batch, ring, events[ring]);
    }
    if (round > 0) times_us.push_back(now_us() - begin_us);
  }
  return summary(times_us);
}

// One row of the table, and its speed beside that of the plain copy.
void tell_row(const char* part, const std::string& name, const Times& times, double baseline,
              const std::string& more = "");

// GB/s of one cuMemcpyHtoDAsync a batch out of pinned memory, told in a row.
double time_plain_copy(const Gpu& gpu, const char* part, const Landing& landing,
                       const PinnedMemory& pinned);

}  // namespace farpage::gpu_bench
