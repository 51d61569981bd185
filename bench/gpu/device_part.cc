// What checking and scattering cost where the pages lie in the GPU's memory.

#include <fmt/core.h>

#include "bench/gpu/kernels.h"
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
  const DeviceMemory sum(gpu, 4);
  double best = 0;
  for (const char* kernel : {"read_4", "read_8"}) {
    for (const int blocks : {2, 4, 16, 64}) {
      uint64_t from = at;
      uint64_t length = bytes;
      uint64_t to = sum.at();
      const Times times = time_on_stream(gpu, stream, kRounds, [&] {
        launch(gpu, stream, {kernel, static_cast<unsigned>(gpu.processors() * blocks), 512, 0},
               {&from, &length, &to});
      });
      const double speed = gigabytes_per_s(static_cast<double>(bytes), times.median_us);
      fmt::print("read   {:18} {:3} blocks a processor {:9.1f} us ({:.1f}-{:.1f}) {:7.1f} GB/s\n",
                 kernel, blocks, times.median_us, times.least_us, times.most_us, speed);
      best = std::max(best, speed);
    }
  }
  return best;
}

}  // namespace

void time_crcs(const Gpu& gpu, uint32_t pages) {
  const StagedPages staged(gpu, pages, false);
  const Stream stream(gpu);
  const DeviceMemory crcs(gpu, pages * 4);
  const double read =
      read_bandwidth(gpu, stream, staged.memory.at(), staged.memory.bytes() / 16 * 16);
  fmt::print("read   best of {} bytes: {:.1f} GB/s\n", staged.memory.bytes(), read);
  for (const Variant& variant : kCrcVariants) {
    const Launch how = launch_of(variant, pages, gpu.processors(), kPageBytes);
    crcs.fill(0);
    const PageArguments arguments{
        staged.items.at(), pages, {}, {nullptr, nullptr, reinterpret_cast<uint32_t*>(crcs.at())}};
    const Times times =
        time_on_stream(gpu, stream, kRounds, [&] { launch_pages(gpu, stream, how, arguments); });
    const double speed = gigabytes_per_s(static_cast<double>(pages) * kPageBytes, times.median_us);
    fmt::print(
        "crc    {:18} {:6} blocks {:9.1f} us ({:.1f}-{:.1f}) {:7.1f} GB/s = {:.3f} of read, {} "
        "wrong\n",
        variant.kernel, how.blocks, times.median_us, times.least_us, times.most_us, speed,
        speed / read, wrong_crcs(staged, crcs, pages));
  }
}

void time_scatter(const Gpu& gpu, uint32_t pages, uint32_t pieces) {
  const StagedPages staged(gpu, pages, true);
  const Stream stream(gpu);
  const auto piece_bytes = static_cast<uint32_t>(kPageBytes / pieces);
  const DeviceMemory pool(gpu, pages * kPageBytes);
  std::vector<uint64_t> bases(pieces);
  for (uint32_t i = 0; i < pieces; ++i) bases[i] = pool.at(uint64_t{i} * pages * piece_bytes);
  const DeviceMemory base_table(gpu, pieces * 8);
  base_table.put(bases.data(), pieces * 8);
  const DeviceMemory findings(gpu, pages);
  const DeviceMemory bitmap(gpu, (pages + 31) / 32 * 4);
  const PageArguments arguments{
      staged.items.at(),
      pages,
      {reinterpret_cast<const uint64_t*>(base_table.at()), piece_bytes, pieces, piece_bytes},
      {reinterpret_cast<uint8_t*>(findings.at()), reinterpret_cast<uint32_t*>(bitmap.at()),
       nullptr}};
  double best_us = 0;
  const auto run = [&](const Variant& variant, bool checks) {
    const Launch how = launch_of(variant, pages, gpu.processors(), kPageBytes);
    findings.fill(0xFF);
    const Times times =
        time_on_stream(gpu, stream, kRounds, [&] { launch_pages(gpu, stream, how, arguments); });
    std::string result;
    if (checks) {
      std::vector<uint8_t> found(pages);
      findings.get(found.data(), pages);
      const auto bad = std::ranges::count_if(found, [](uint8_t it) { return it != 0; });
      result = fmt::format(" = {:.3f} x scatter, {} not good", times.median_us / best_us, bad);
    } else if (best_us == 0 || times.median_us < best_us) {
      best_us = times.median_us;
    }
    fmt::print(
        "{} {:18} {:6} blocks, {} pieces {:9.1f} us ({:.1f}-{:.1f}) {:7.1f} GB/s of pages{}\n",
        checks ? "fused  " : "scatter", variant.kernel, how.blocks, pieces, times.median_us,
        times.least_us, times.most_us,
        gigabytes_per_s(static_cast<double>(pages) * kPageBytes, times.median_us), result);
  };
  for (const Variant& variant : kScatterVariants) run(variant, false);
  for (const Variant& variant : kFusedVariants) run(variant, true);
}

void time_small_batches(const Gpu& gpu) {
  constexpr uint32_t kPages = 16384;
  const StagedPages staged(gpu, kPages, true);
  const Stream stream(gpu);
  const DeviceMemory crcs(gpu, kPages * 4);
  const DeviceMemory pool(gpu, kPages * kPageBytes);
  std::vector<uint64_t> bases(16);
  for (uint32_t i = 0; i < 16; ++i) bases[i] = pool.at(uint64_t{i} * kPages * 4096);
  const DeviceMemory base_table(gpu, 16 * 8);
  base_table.put(bases.data(), 16 * 8);
  const DeviceMemory findings(gpu, kPages);
  for (const uint32_t batch : {1u, 16u, 256u}) {
    const auto run = [&](const Variant& variant) {
      const Launch how = launch_of(variant, batch, gpu.processors(), kPageBytes);
      const uint32_t batches = std::min<uint32_t>(64, kPages / batch);
      const Times times = time_on_stream(gpu, stream, 5, [&] {
        for (uint32_t i = 0; i < batches; ++i) {
          const uint64_t first = uint64_t{i} * batch;
          launch_pages(gpu, stream, how,
                       {staged.items.at(first * sizeof(cuda::PageItem)),
                        batch,
                        {reinterpret_cast<const uint64_t*>(base_table.at()), 4096, 16, 4096},
                        {reinterpret_cast<uint8_t*>(findings.at(first)), nullptr,
                         reinterpret_cast<uint32_t*>(crcs.at(first * 4))}});
        }
      });
      fmt::print("batch  {:18} {:6} blocks, {:3} pages: {:7.2f} us a batch\n", variant.kernel,
                 how.blocks, batch, times.median_us / batches);
    };
    for (const Variant& variant : kCrcVariants) run(variant);
    for (const Variant& variant : kScatterVariants) run(variant);
    for (const Variant& variant : kFusedVariants) run(variant);
  }
}

}  // namespace farpage::gpu_bench
