// What it costs to bring pages out of a node's pool in shared memory.

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "bench/gpu/landing.h"
#include "bench/gpu/parts.h"

namespace farpage::gpu_bench {
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
  {
    const Stream stream(gpu);
    const Times times = time_batches(
        gpu,
        [&](uint32_t batch, uint32_t ring, const Event& event) {
          landing.check(stream, ring, items_of(batch));
          event.record(stream);
        },
        settle);
    tell_row("shm   ", fmt::format("{}, fused check out of the pool", how), times, copy,
             fmt::format(", {} not good", bad));
  }
  make_items([&](uint32_t i) { return landing.staged.at(i % (kRing * kBatch) * kSlotBytes); });
  const Stream copies(gpu);
  const Stream checks(gpu);
  std::deque<Event> copied;
  for (uint32_t i = 0; i < kRing; ++i) copied.emplace_back(gpu);
  const auto copy_batch = gpu.driver().copy_batch;
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
            cuda::CopyAttributes attributes;
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
          landing.check(checks, ring, items_of(batch));
          event.record(checks);
        },
        settle);
    tell_row("shm   ",
             fmt::format("{}, {}, then fused check", how, as_batch ? "a batch copy" : "256 copies"),
             times, copy, fmt::format("{}, {} not good", as_batch ? " (bound 0.85)" : "", bad));
  }
}

}  // namespace

void time_node_pool(const Gpu& gpu) {
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

}  // namespace farpage::gpu_bench
