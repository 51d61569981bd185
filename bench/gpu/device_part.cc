// What checking and scattering cost where the pages lie in the GPU's memory.

#include <fmt/core.h>

#include <algorithm>

#include "bench/gpu/pages.h"
#include "bench/gpu/parts.h"

namespace farpage::gpu_bench {
namespace {

constexpr uint32_t kDistinct = 1024;
constexpr int kRounds = 9;

double gigabytes_per_s(double bytes, double time_us) {
  return bytes / time_us / 1000;
}

// `count` slots in the GPU's memory, kDistinct of them distinct.
struct StagedPages {
  Slots slots;
  DeviceMemory memory;
  DeviceMemory items;
  std::vector<cuda::PageItem> made;

  StagedPages(const Gpu& gpu, uint32_t count, bool shuffled)
      : slots(std::min(count, kDistinct), 1),
        memory(gpu, count * kSlotBytes),
        items(gpu, count * sizeof(cuda::PageItem)),
        made(count) {
    const Stream stream(gpu);
    memory.put(slots.bytes.data(), slots.bytes.size());
    for (uint64_t done = slots.bytes.size(); done < memory.bytes();) {
      const uint64_t part = std::min(done, memory.bytes() - done);
      gpu.check(gpu.driver().copy_on_device(memory.at(done), memory.at(), part, stream.get()),
                "cuMemcpyDtoD");
      done += part;
    }
    stream.wait();
    std::vector<uint32_t> blocks(count);
    for (uint32_t i = 0; i < count; ++i) blocks[i] = i;
    std::mt19937_64 random(2);
    if (shuffled) std::ranges::shuffle(blocks, random);
    for (uint32_t i = 0; i < count; ++i) {
      made[i] = expected_page(i % kDistinct, memory.at(i * kSlotBytes), blocks[i]);
    }
    items.put(made.data(), count * sizeof(cuda::PageItem));
  }
};

uint32_t wrong_crcs(const StagedPages& staged, const DeviceMemory& crcs, uint32_t count) {
  std::vector<uint32_t> found(count);
  crcs.get(found.data(), count * 4);
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < count; ++i) wrong += found[i] != staged.slots.crcs[i % kDistinct];
  return wrong;
}

double read_bandwidth(const Gpu& gpu, const Stream& stream, uint64_t at, uint64_t bytes) {
  constexpr unsigned kBlocksPerProcessor = 64;
  const DeviceMemory sum(gpu, 4);
  uint64_t to = sum.at();
  const Times times = time_on_stream(gpu, stream, kRounds, [&] {
    launch(gpu, stream, {"read_all", gpu.processors() * kBlocksPerProcessor, 512, 0},
           {&at, &bytes, &to});
  });
  const double speed = gigabytes_per_s(static_cast<double>(bytes), times.median_us);
  fmt::print("read     {:24} {:9.1f} us ({:.1f}-{:.1f}) {:7.1f} GB/s of {} bytes\n", "read_all",
             times.median_us, times.least_us, times.most_us, speed, bytes);
  return speed;
}

}  // namespace

void time_crcs(const Gpu& gpu, uint32_t pages) {
  const StagedPages staged(gpu, pages, false);
  const Stream stream(gpu);
  const DeviceMemory crcs(gpu, pages * 4);
  const double read =
      read_bandwidth(gpu, stream, staged.memory.at(), staged.memory.bytes() / 16 * 16);
  crcs.fill(0);
  const cuda::PageBatch batch{staged.items.at(),
                              pages,
                              kPageBytes,
                              {},
                              {nullptr, nullptr, reinterpret_cast<uint32_t*>(crcs.at())}};
  const Times times = time_on_stream(
      gpu, stream, kRounds, [&] { expect_started(gpu.kernels().crcs(stream.get(), batch)); });
  const double speed = gigabytes_per_s(static_cast<double>(pages) * kPageBytes, times.median_us);
  fmt::print(
      "crc      {:24} {:9.1f} us ({:.1f}-{:.1f}) {:7.1f} GB/s = {:.3f} of read (bound 0.9), "
      "{} wrong\n",
      "page_crcs", times.median_us, times.least_us, times.most_us, speed, speed / read,
      wrong_crcs(staged, crcs, pages));
}

namespace {

// The pool and the findings of staged pages.
struct ScatterPlace {
  DeviceMemory pool;
  DeviceMemory base_table;
  DeviceMemory findings;
  DeviceMemory bitmap;
  cuda::PagedLayout layout;

  ScatterPlace(const Gpu& gpu, uint32_t pages, uint32_t pieces)
      : pool(gpu, pages * kPageBytes),
        base_table(gpu, pieces * 8),
        findings(gpu, pages),
        bitmap(gpu, (pages + 31) / 32 * 4) {
    const auto piece_bytes = static_cast<uint32_t>(kPageBytes / pieces);
    std::vector<uint64_t> bases(pieces);
    for (uint32_t i = 0; i < pieces; ++i) bases[i] = pool.at(uint64_t{i} * pages * piece_bytes);
    base_table.put(bases.data(), pieces * 8);
    layout = {reinterpret_cast<const uint64_t*>(base_table.at()), piece_bytes, pieces, piece_bytes};
  }
  cuda::PageFindings out() const {
    return {reinterpret_cast<uint8_t*>(findings.at()), reinterpret_cast<uint32_t*>(bitmap.at()),
            nullptr};
  }
};

}  // namespace

void time_scatter(const Gpu& gpu, uint32_t pages, uint32_t pieces) {
  const StagedPages staged(gpu, pages, true);
  const Stream stream(gpu);
  const ScatterPlace place(gpu, pages, pieces);
  const cuda::PageBatch batch{staged.items.at(), pages, kPageBytes, place.layout, place.out()};
  const auto tell_row = [&](const char* part, const char* name, const Times& times,
                            const std::string& more) {
    fmt::print("{:8} {:24} {:2} pieces {:9.1f} us ({:.1f}-{:.1f}) {:7.1f} GB/s of pages{}\n", part,
               name, pieces, times.median_us, times.least_us, times.most_us,
               gigabytes_per_s(static_cast<double>(pages) * kPageBytes, times.median_us), more);
  };
  double best_us = 0;
  for (const ScatterWay& way : scatter_ways(gpu)) {
    const Times times =
        time_on_stream(gpu, stream, kRounds, [&] { scatter(gpu, stream, way.scatter, batch); });
    if (best_us == 0 || times.median_us < best_us) best_us = times.median_us;
    tell_row("scatter", way.name, times, "");
  }
  for (const FusedWay& way : fused_ways(gpu)) {
    place.findings.fill(0xFF);
    const Times times = time_on_stream(gpu, stream, kRounds, [&] {
      expect_started(gpu.kernels().check_and_scatter(way.kernel, stream.get(), batch));
    });
    std::vector<uint8_t> found(pages);
    place.findings.get(found.data(), pages);
    const auto bad = std::ranges::count_if(found, [](uint8_t it) { return it != 0; });
    tell_row("fused", way.name, times,
             fmt::format(" = {:.3f} x scatter (bound 1.10), {} not good", times.median_us / best_us,
                         bad));
  }
}

void time_small_batches(const Gpu& gpu) {
  constexpr uint32_t kPages = 16384;
  const StagedPages staged(gpu, kPages, true);
  const Stream stream(gpu);
  const DeviceMemory crcs(gpu, kPages * 4);
  const ScatterPlace place(gpu, kPages, 16);
  for (const uint32_t pages : {1u, 16u, 256u}) {
    const auto run = [&](const char* name, const auto& start) {
      const uint32_t batches = std::min<uint32_t>(64, kPages / pages);
      const Times times = time_on_stream(gpu, stream, 5, [&] {
        for (uint32_t i = 0; i < batches; ++i) {
          const uint64_t first = uint64_t{i} * pages;
          start(cuda::PageBatch{staged.items.at(first * sizeof(cuda::PageItem)),
                                pages,
                                kPageBytes,
                                place.layout,
                                {reinterpret_cast<uint8_t*>(place.findings.at(first)), nullptr,
                                 reinterpret_cast<uint32_t*>(crcs.at(first * 4))}});
        }
      });
      fmt::print("batch    {:24} {:3} pages: {:7.2f} us a batch\n", name, pages,
                 times.median_us / batches);
    };
    run("page_crcs", [&](const cuda::PageBatch& batch) {
      expect_started(gpu.kernels().crcs(stream.get(), batch));
    });
    for (const ScatterWay& way : scatter_ways(gpu)) {
      run(way.name,
          [&](const cuda::PageBatch& batch) { scatter(gpu, stream, way.scatter, batch); });
    }
    for (const FusedWay& way : fused_ways(gpu)) {
      run(way.name, [&](const cuda::PageBatch& batch) {
        expect_started(gpu.kernels().check_and_scatter(way.kernel, stream.get(), batch));
      });
    }
  }
}

}  // namespace farpage::gpu_bench
