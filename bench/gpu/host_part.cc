// What it costs to bring pages from the host's memory, checked.

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <stdexcept>
#include <thread>

#include "bench/gpu/kernels.h"
#include "bench/gpu/pages.h"
#include "bench/gpu/parts.h"
#include "integrity/crc32c.h"

namespace farpage::gpu_bench {
namespace {

constexpr uint32_t kBatch = 256;
constexpr uint32_t kRing = 8;
constexpr int kBatches = 64;
constexpr int kRounds = 5;
constexpr uint64_t kBatchBytes = kBatch * kPageBytes;
constexpr uint64_t kBatchSlotBytes = kBatch * kSlotBytes;
constexpr uint32_t kPieces = 16;
constexpr Variant kFused = {"fused_shared_w4", 128, 0, 3, true, 0, 16};

double speed_of(uint64_t bytes, double time_us) {
  return static_cast<double>(bytes) / time_us / 1000;
}

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
  void check(const Stream& stream, uint32_t ring, uint64_t from, unsigned blocks) const {
    Launch how = launch_of(kFused, kBatch, gpu.processors(), kPageBytes);
    how.blocks = blocks;
    launch_pages(gpu, stream, how,
                 {from,
                  kBatch,
                  {reinterpret_cast<const uint64_t*>(base_table.at()), kPageBytes / kPieces,
                   kPieces, kPageBytes / kPieces},
                  {reinterpret_cast<uint8_t*>(findings.device_address() + ring * kBatch), nullptr,
                   nullptr}});
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
  for (int round = 0; round <= kRounds; ++round) {
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

void tell_row(const char* part, const std::string& name, const Times& times, double baseline,
              const std::string& more = "") {
  const double speed = speed_of(kBatches * kBatchBytes, times.median_us);
  fmt::print("{} {:44} {:9.1f} us ({:.1f}-{:.1f}) {:6.2f} GB/s = {:.3f} of the copy{}\n", part,
             name, times.median_us, times.least_us, times.most_us, speed, speed / baseline, more);
}

double time_plain_copy(const Gpu& gpu, const char* part, const Landing& landing,
                       const PinnedMemory& pinned) {
  const Stream stream(gpu);
  const auto issue = [&](uint32_t, uint32_t ring, const Event& event) {
    gpu.check(gpu.driver().copy_to_device(landing.staged.at(ring * kBatchSlotBytes),
                                          pinned.data() + ring * kBatchSlotBytes, kBatchBytes,
                                          stream.get()),
              "cuMemcpyHtoDAsync");
    event.record(stream);
  };
  const Times times = time_batches(gpu, issue, [](uint32_t, uint32_t) {});
  const double speed = speed_of(kBatches * kBatchBytes, times.median_us);
  fmt::print("{} {:44} {:9.1f} us ({:.1f}-{:.1f}) {:6.2f} GB/s\n", part,
             "one cuMemcpyHtoDAsync a batch, pinned", times.median_us, times.least_us,
             times.most_us, speed);
  return speed;
}

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
  for (int round = 0; round <= kRounds; ++round) {
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
    for (const unsigned blocks : {32u, 64u, 256u}) {
      bad = 0;
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
            landing.check(checks, ring, landing.items.at(ring * batch_item_bytes), blocks);
            event.record(checks);
          },
          settle);
      tell_row("bounce", fmt::format("copy, then fused check on the GPU, {} blocks", blocks), times,
               copy, fmt::format(", {} not good", bad));
    }
  }
  landing.items.put(pinned_items.data(), item_bytes);
  for (const unsigned blocks : {8u, 16u, 32u, 64u, 256u}) {
    bad = 0;
    const Stream stream(gpu);
    const Times times = time_batches(
        gpu,
        [&](uint32_t, uint32_t ring, const Event& event) {
          landing.check(stream, ring, landing.items.at(ring * batch_item_bytes), blocks);
          event.record(stream);
        },
        settle);
    tell_row("bounce", fmt::format("fused check out of pinned memory, {} blocks", blocks), times,
             copy, fmt::format(", {} not good", bad));
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
    for (const int threads : {1, 2, 4, 6, 8, 12}) {
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

namespace {

// A node's pool: slots in a memfd, sealed, and mapped a second time for reading only.
class SharedPool {
 public:
  SharedPool(const Slots& slots, uint32_t count)
      : bytes_((count * kSlotBytes + 4095) / 4096 * 4096) {
    fd_ = ::memfd_create("farpage_gpu_pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
      throw std::runtime_error(fmt::format("memfd: errno {}", errno));
    }
    write_ = map(PROT_READ | PROT_WRITE);
    const uint64_t distinct = slots.bytes.size();
    for (uint64_t done = 0; done < count * kSlotBytes; done += distinct) {
      std::memcpy(write_ + done, slots.bytes.data(), std::min(distinct, count * kSlotBytes - done));
    }
    constexpr int kFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE
    if (::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | kFutureWrite) != 0) {
      throw std::runtime_error(fmt::format("seals: errno {}", errno));
    }
    read_ = map(PROT_READ);
  }
  ~SharedPool() {
    ::munmap(read_, bytes_);
    ::munmap(write_, bytes_);
    ::close(fd_);
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;
  std::byte* read_only() const { return read_; }
  std::byte* writable() const { return write_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* map(int protection) const {
    void* mapped = ::mmap(nullptr, bytes_, protection, MAP_SHARED | MAP_POPULATE, fd_, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error(fmt::format("mmap: errno {}", errno));
    return static_cast<std::byte*>(mapped);
  }

  int fd_ = -1;
  uint64_t bytes_;
  std::byte* write_ = nullptr;
  std::byte* read_ = nullptr;
};

using CopyBatch = int (*)(uint64_t* to, uint64_t* from, size_t* bytes, size_t count,
                          void* attributes, size_t* indexes, size_t attribute_count,
                          cuda::Stream stream);

CopyBatch find_copy_batch() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<CopyBatch>(::dlsym(library, "cuMemcpyBatchAsync_v2"));
}

void time_registered(const Gpu& gpu, const Landing& landing, double copy, std::byte* pool,
                     uint32_t count, const char* how) {
  uint64_t address = 0;
  gpu.check(gpu.driver().host_address(&address, pool, 0), "cuMemHostGetDevicePointer");
  // Each batch takes 256 slots of the pool at random.
  std::mt19937_64 random(9);
  std::vector<uint32_t> chosen(kBatches * kBatch);
  for (uint32_t& slot : chosen) slot = static_cast<uint32_t>(random() % count);
  std::vector<cuda::PageItem> items(chosen.size());
  const DeviceMemory device_items(gpu, items.size() * sizeof(cuda::PageItem));
  uint32_t bad = 0;
  // After the copy, the live word is read again, as protocol rules ask.
  const auto settle = [&](uint32_t batch, uint32_t ring) {
    bad += landing.not_good(ring);
    for (uint32_t i = 0; i < kBatch; ++i) {
      const uint32_t slot = chosen[batch * kBatch + i];
      const auto* header = reinterpret_cast<const PageHeader*>(pool + slot * kSlotBytes);
      const uint32_t page = slot % 1024;
      bad += __atomic_load_n(&header->live, __ATOMIC_ACQUIRE) !=
             live_token({page, ~uint64_t{page}}, make_version(1, page + 1), kIncarnation);
    }
  };
  const auto make_items = [&](const auto& place) {
    for (uint32_t i = 0; i < items.size(); ++i) {
      items[i] = expected_page(chosen[i] % 1024, place(i), i % (kRing * kBatch));
    }
    device_items.put(items.data(), items.size() * sizeof(cuda::PageItem));
  };
  const auto items_of = [&](uint32_t batch) {
    return device_items.at(uint64_t{batch} * kBatch * sizeof(cuda::PageItem));
  };
  make_items([&](uint32_t i) { return address + chosen[i] * kSlotBytes; });
  for (const unsigned blocks : {16u, 32u, 64u, 256u}) {
    bad = 0;
    const Stream stream(gpu);
    const Times times = time_batches(
        gpu,
        [&](uint32_t batch, uint32_t ring, const Event& event) {
          landing.check(stream, ring, items_of(batch), blocks);
          event.record(stream);
        },
        settle);
    tell_row("shm   ", fmt::format("{}, fused check out of the pool, {} blocks", how, blocks),
             times, copy, fmt::format(", {} not good", bad));
  }
  make_items([&](uint32_t i) { return landing.staged.at(i % (kRing * kBatch) * kSlotBytes); });
  const Stream copies(gpu);
  const Stream checks(gpu);
  std::deque<Event> copied;
  for (uint32_t i = 0; i < kRing; ++i) copied.emplace_back(gpu);
  const CopyBatch copy_batch = find_copy_batch();
  for (const bool as_batch : {false, true}) {
    if (as_batch && copy_batch == nullptr) continue;
    bad = 0;
    const Times times = time_batches(
        gpu,
        [&](uint32_t batch, uint32_t ring, const Event& event) {
          std::vector<uint64_t> to(kBatch);
          std::vector<uint64_t> from(kBatch);
          std::vector<size_t> bytes(kBatch, kSlotBytes);
          for (uint32_t i = 0; i < kBatch; ++i) {
            to[i] = landing.staged.at((ring * kBatch + i) * kSlotBytes);
            from[i] = reinterpret_cast<uint64_t>(pool) + chosen[batch * kBatch + i] * kSlotBytes;
          }
          if (as_batch) {
            struct Attributes {  // CUmemcpyAttributes
              int order = 1;     // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
              int from_type = 0, from_id = 0, to_type = 0, to_id = 0;
              unsigned flags = 0;
            } attributes;
            size_t first = 0;
            gpu.check(copy_batch(to.data(), from.data(), bytes.data(), kBatch, &attributes, &first,
                                 1, copies.get()),
                      "cuMemcpyBatchAsync");
          } else {
            for (uint32_t i = 0; i < kBatch; ++i) {
              gpu.check(gpu.driver().copy_to_device(to[i], reinterpret_cast<void*>(from[i]),
                                                    kSlotBytes, copies.get()),
                        "cuMemcpyHtoDAsync");
            }
          }
          copied[ring].record(copies);
          gpu.check(gpu.driver().stream_wait_event(checks.get(), copied[ring].get(), 0),
                    "cuStreamWaitEvent");
          landing.check(checks, ring, items_of(batch), 64);
          event.record(checks);
        },
        settle);
    tell_row("shm   ",
             fmt::format("{}, {}, then fused check", how, as_batch ? "a batch copy" : "256 copies"),
             times, copy, fmt::format(", {} not good", bad));
  }
}

}  // namespace

void time_shm(const Gpu& gpu) {
  constexpr uint32_t kSlots = 8192;
  const Slots slots(1024, 1);
  const Landing landing(gpu);
  double copy = 0;
  {
    const PinnedMemory pinned(gpu, kRing * kBatchSlotBytes);
    fill_random(pinned.data(), kRing * kBatchSlotBytes, 4);
    copy = time_plain_copy(gpu, "shm   ", landing, pinned);
  }
  const SharedPool pool(slots, kSlots);
  struct Way {
    const char* name;
    bool writable;
    unsigned flags;
  };
  constexpr Way kWays[] = {{"read-only map, READ_ONLY", false, 8 | 2},
                           {"read-only map, no flag", false, 2},
                           {"writable map, no flag", true, 2}};
  bool timed = false;
  for (const Way& way : kWays) {
    std::byte* at = way.writable ? pool.writable() : pool.read_only();
    const double begin_us = now_us();
    const int result = gpu.driver().register_host(at, pool.bytes(), way.flags);
    fmt::print("shm    {}: {}, {:.0f} us for {} bytes\n", way.name,
               result == 0 ? "registered" : cuda::driver_error(gpu.driver(), result, "refused"),
               now_us() - begin_us, pool.bytes());
    if (result != 0) continue;
    if (!timed) {
      try {
        time_registered(gpu, landing, copy, at, kSlots, way.name);
        timed = true;
      } catch (const std::exception& error) {
        fmt::print("shm    {} failed: {}\n", way.name, error.what());
      }
    }
    gpu.driver().unregister_host(at);
  }
}

void time_waits(const Gpu& gpu) {
  constexpr int kTimes = 1000;
  constexpr unsigned kGreaterOrEqual = 0;
  const PinnedMemory words(gpu, 4096);
  auto* counter = reinterpret_cast<volatile uint64_t*>(words.data());
  auto* flag = reinterpret_cast<volatile uint64_t*>(words.data() + 256);
  uint64_t counter_address = words.device_address();
  uint64_t flag_address = words.device_address() + 256;
  const Stream stream(gpu);
  uint64_t value = 0;
  const auto spin_until = [](double until_us) {
    while (now_us() < until_us) {
    }
  };
  const auto time_each = [&](const char* name, const std::function<void()>& prepare,
                             const std::function<void()>& move) {
    std::vector<double> times_us;
    for (int i = 0; i < kTimes; ++i) {
      ++value;
      prepare();
      spin_until(now_us() + 30);
      const double begin_us = now_us();
      move();
      while (*flag != value) {
        if (now_us() - begin_us > 1e6) throw std::runtime_error("no kernel started within 1 s");
      }
      times_us.push_back(now_us() - begin_us);
      stream.wait();
    }
    std::ranges::sort(times_us);
    fmt::print("wait   {:48} median {:.2f} us, p90 {:.2f}, p99 {:.2f}, least {:.2f}\n", name,
               times_us[kTimes / 2], times_us[kTimes * 9 / 10], times_us[kTimes * 99 / 100],
               times_us[0]);
  };
  const auto set_flag = [&] {
    launch(gpu, stream, {"set_flag", 1, 1, 0}, {&flag_address, &value});
  };
  const auto move_counter = [&] { *counter = value; };
  for (const unsigned flags : {kGreaterOrEqual, 1u << 30}) {
    if (flags != 0 && gpu.attribute(98) != 1) {
      fmt::print("wait   no flush of remote writes on this GPU\n");
      continue;
    }
    time_each(
        flags == 0 ? "counter, cuStreamWaitValue64, kernel, flag seen" : "the same with FLUSH",
        [&] {
          gpu.check(gpu.driver().stream_wait_value(stream.get(), counter_address, value, flags),
                    "cuStreamWaitValue64");
          set_flag();
        },
        move_counter);
  }
  time_each(
      "counter, kernel that waits for it, flag seen",
      [&] {
        launch(gpu, stream, {"wait_then_set", 1, 1, 0}, {&counter_address, &flag_address, &value});
      },
      move_counter);
  time_each(
      "launch, kernel, flag seen", [] {}, set_flag);
}

}  // namespace farpage::gpu_bench
