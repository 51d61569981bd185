// What it costs to bring pages from pinned memory of the host, checked there or on the GPU.

#include <fmt/core.h>

#include <atomic>
#include <thread>

#include "bench/gpu/landing.h"
#include "bench/gpu/parts.h"
#include "integrity/crc32c.h"

namespace farpage::gpu_bench {
namespace {

// `threads` threads that bring pages to the landing, checked by the CPU; this thread sends each
// whole batch on. `copies`: out of a wire's buffer; otherwise the wire has written the landing.
Times time_host_check(const Gpu& gpu, const Landing& landing, const PinnedMemory& pinned,
                      const std::vector<std::byte>& wire, const std::vector<uint32_t>& crcs,
                      int threads, bool copies, std::atomic<uint32_t>& bad) {
  const Stream stream(gpu);
  std::deque<Event> events;
  for (uint32_t i = 0; i < kRing; ++i) events.emplace_back(gpu);
  const uint64_t wire_pages = wire.size() / kPageBytes;
  std::vector<double> times_us;
  for (int round = 0; round <= kBatchRounds; ++round) {
    std::atomic<uint32_t> next{0};
    std::atomic<uint32_t> allowed{kRing * kBatch};
    std::vector<std::atomic<uint32_t>> arrived(kBatches);
    const double begin_us = now_us();
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        for (;;) {
          const uint32_t page = next.fetch_add(1, std::memory_order_relaxed);
          if (page >= kBatches * kBatch) return;
          while (allowed.load(std::memory_order_acquire) <= page) std::this_thread::yield();
          std::byte* to = pinned.data() + page % (kRing * kBatch) * kPageBytes;
          const std::byte* from = wire.data() + page % wire_pages * kPageBytes;
          const uint32_t crc = copies ? copy_with_crc32c(0, to, from, kPageBytes, Stores::kStreamed)
                                      : crc32c(0, to, kPageBytes);
          if (crc != crcs[page % (copies ? wire_pages : kRing * kBatch) % crcs.size()]) ++bad;
          arrived[page / kBatch].fetch_add(1, std::memory_order_release);
        }
      });
    }
    uint32_t left = 0;  // batches that have left the landing
    for (uint32_t batch = 0; batch < kBatches; ++batch) {
      while (arrived[batch].load(std::memory_order_acquire) < kBatch) {
        if (left < batch && events[left % kRing].done()) {
          ++left;
          allowed.store((left + kRing) * kBatch, std::memory_order_release);
        }
      }
      const uint32_t ring = batch % kRing;
      gpu.check(gpu.driver().copy_to_device(landing.staged.at(ring * kBatchSlotBytes),
                                            pinned.data() + ring * kBatchBytes, kBatchBytes,
                                            stream.get()),
                "cuMemcpyHtoDAsync");
      events[ring].record(stream);
    }
    stream.wait();
    if (round > 0) times_us.push_back(now_us() - begin_us);
  }
  return summary(times_us);
}

}  // namespace

void time_bounce(const Gpu& gpu) {
  const Landing landing(gpu);
  const PinnedMemory pinned(gpu, kRing * kBatchSlotBytes);
  Slots slots(kRing * kBatch, 21);
  std::memcpy(pinned.data(), slots.bytes.data(), slots.bytes.size());
  const double copy = time_plain_copy(gpu, "bounce", landing, pinned);

  uint32_t bad = 0;
  const auto settle = [&](uint32_t, uint32_t ring) { bad += landing.not_good(ring); };
  std::vector<cuda::PageItem> staged_items(kRing * kBatch);
  std::vector<cuda::PageItem> pinned_items(kRing * kBatch);
  for (uint32_t i = 0; i < kRing * kBatch; ++i) {
    staged_items[i] = expected_page(i, landing.staged.at(i * kSlotBytes), i);
    pinned_items[i] = expected_page(i, pinned.device_address() + i * kSlotBytes, i);
  }
  const uint64_t item_bytes = staged_items.size() * sizeof(cuda::PageItem);
  const uint64_t batch_item_bytes = kBatch * sizeof(cuda::PageItem);
  {
    landing.items.put(staged_items.data(), item_bytes);
    const Stream copies(gpu);
    const Stream checks(gpu);
    std::deque<Event> copied;
    for (uint32_t i = 0; i < kRing; ++i) copied.emplace_back(gpu);
    const Times times = time_batches(
        gpu,
        [&](uint32_t, uint32_t ring, const Event& event) {
          gpu.check(gpu.driver().copy_to_device(landing.staged.at(ring * kBatchSlotBytes),
                                                pinned.data() + ring * kBatchSlotBytes,
                                                kBatchSlotBytes, copies.get()),
                    "cuMemcpyHtoDAsync");
          copied[ring].record(copies);
          gpu.check(gpu.driver().stream_wait_event(checks.get(), copied[ring].get(), 0),
                    "cuStreamWaitEvent");
          landing.check(checks, ring, landing.items.at(ring * batch_item_bytes));
          event.record(checks);
        },
        settle);
    tell_row("bounce", "copy, then fused check on the GPU", times, copy,
             fmt::format(" (bound 0.9), {} not good", bad));
  }
  landing.items.put(pinned_items.data(), item_bytes);
  bad = 0;
  {
    const Stream stream(gpu);
    const Times times = time_batches(
        gpu,
        [&](uint32_t, uint32_t ring, const Event& event) {
          landing.check(stream, ring, landing.items.at(ring * batch_item_bytes));
          event.record(stream);
        },
        settle);
    tell_row("bounce", "fused check out of pinned memory", times, copy,
             fmt::format(", {} not good", bad));
  }
  // By the host: 512 MiB of pages on the wire, so that they come out of memory.
  std::vector<std::byte> wire(kBatches / 2 * kBatchBytes);
  std::vector<uint32_t> crcs(wire.size() / kPageBytes);
  fill_random(wire.data(), 64 << 20, 5);
  for (uint64_t done = 64 << 20; done < wire.size(); done += 64 << 20) {
    std::memcpy(wire.data() + done, wire.data(), 64 << 20);
  }
  for (uint32_t i = 0; i < crcs.size(); ++i) {
    crcs[i] = i < 1024 ? crc32c(0, wire.data() + i * kPageBytes, kPageBytes) : crcs[i % 1024];
  }
  const unsigned processors = std::thread::hardware_concurrency();
  for (const bool copies : {true, false}) {
    if (!copies) std::memcpy(pinned.data(), wire.data(), kRing * kBatchBytes);
    for (const int threads : {1, 2, 4, 6, 8}) {
      if (threads >= static_cast<int>(processors)) continue;
      std::atomic<uint32_t> wrong{0};
      const Times times = time_host_check(gpu, landing, pinned, wire, crcs, threads, copies, wrong);
      tell_row("bounce",
               fmt::format("{} by {} host threads, then one copy",
                           copies ? "copied and checked" : "checked in place", threads),
               times, copy, fmt::format(", {} not good", wrong.load()));
    }
  }
}

}  // namespace farpage::gpu_bench
