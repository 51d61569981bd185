// Whether every kernel finds what the CPU finds.

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "bench/gpu/pages.h"
#include "bench/gpu/parts.h"
#include "integrity/crc32c.h"
#include "integrity/page_check.h"

namespace farpage::gpu_bench {
namespace {

constexpr unsigned char kPoison = 0xA5;

// Damages the page in slot `i` in one of several ways, or leaves it.
void damage(Slots& slots, uint32_t i, std::mt19937_64& random) {
  auto* header = reinterpret_cast<PageHeader*>(slots.slot(i));
  std::byte* payload = slots.slot(i) + kHeaderBytes;
  const auto remake = [&](PageKey key, Version version, uint64_t incarnation, uint32_t bytes) {
    *header = make_page_header(key, version, incarnation, bytes, slots.crcs[i]);
    header->live = live_token(key, version, incarnation);
  };
  const PageKey key = header->key;
  const Version version = header->version;
  switch (random() % 16) {
    case 0:
      payload[random() % kPageBytes] ^= std::byte{1} << random() % 8;
      break;
    case 1:
      payload[0] ^= std::byte{1};
      break;
    case 2:
      payload[kPageBytes - 1] ^= std::byte{0x80};
      break;
    case 3:
      header->live = 0;
      break;
    case 4:
      header->live ^= uint64_t{1} << random() % 64;
      break;
    case 5:
      reinterpret_cast<std::byte*>(header)[random() % 56] ^= std::byte{1} << random() % 8;
      break;
    case 6:
      remake({key.low + 1, key.high}, version, kIncarnation, kPageBytes);
      break;
    case 7:
      remake(key, version + 1, kIncarnation, kPageBytes);
      break;
    case 8:
      remake(key, version, kIncarnation + 1, kPageBytes);
      break;
    case 9:
      remake(key, version, kIncarnation, kPageBytes - 64);
      break;
    default:
      break;
  }
}

PageFinding expected_finding(Slots& slots, uint32_t i, const cuda::PageItem& page) {
  const auto* header = reinterpret_cast<const PageHeader*>(slots.slot(i));
  const PageFinding finding = check_header(*header, {{page.key_low, page.key_high},
                                                     page.version,
                                                     page.min_version,
                                                     page.incarnation,
                                                     page.payload_bytes});
  if (finding != PageFinding::kGood) return finding;
  const uint32_t crc = crc32c(0, slots.slot(i) + kHeaderBytes, kPageBytes);
  return crc == header->payload_crc ? finding : PageFinding::kCorrupt;
}

}  // namespace

void check_crcs(const Gpu& gpu, bool small) {
  const uint32_t count = small ? 24 : 3000;
  constexpr uint32_t kLongest = 80 * 1024;
  std::vector<std::byte> memory((small ? 1 : 64) << 20);
  fill_random(memory.data(), memory.size(), 7);
  const DeviceMemory pages(gpu, memory.size());
  pages.put(memory.data(), memory.size());
  const DeviceMemory items(gpu, count * sizeof(cuda::PageItem));
  const DeviceMemory crcs(gpu, count * sizeof(uint32_t));
  const Stream stream(gpu);
  std::mt19937_64 random(11);
  std::vector<cuda::PageItem> made(count);
  std::vector<uint32_t> expected(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t most = i % 2 == 0 ? kLongest : 700;
    const uint64_t bytes = i < 300 ? i + 1 : 1 + random() % most;
    const uint64_t at = random() % ((memory.size() - kLongest) / 4) * 4;
    made[i].payload = pages.at(at);
    made[i].payload_bytes = static_cast<uint32_t>(bytes);
    expected[i] = crc32c(0, memory.data() + at, bytes);
  }
  items.put(made.data(), count * sizeof(cuda::PageItem));
  crcs.fill(kPoison);
  expect_started(gpu.kernels().crcs(stream.get(),
                                    {items.at(),
                                     count,
                                     kLongest,
                                     {},
                                     {nullptr, nullptr, reinterpret_cast<uint32_t*>(crcs.at())}}));
  stream.wait();
  std::vector<uint32_t> found(count);
  crcs.get(found.data(), count * sizeof(uint32_t));
  uint32_t wrong = 0;
  std::string first;
  for (uint32_t i = 0; i < count; ++i) {
    if (found[i] == expected[i]) continue;
    if (wrong++ == 0) {
      first = fmt::format(", first: page {} of {} bytes: {:08x}, not {:08x}", i,
                          made[i].payload_bytes, found[i], expected[i]);
    }
  }
  fmt::print("check  {:24} {:5} pages, {} wrong{}\n", "page_crcs", count, wrong, first);
}

void check_scatter(const Gpu& gpu, bool small) {
  const uint32_t count = small ? 24 : 1024;
  constexpr uint32_t kPieces = 16;
  constexpr uint32_t kPieceBytes = kPageBytes / kPieces;
  Slots slots(count, 3);
  std::mt19937_64 random(5);
  for (uint32_t i = 0; i < count; ++i) damage(slots, i, random);
  const DeviceMemory staged(gpu, slots.bytes.size());
  staged.put(slots.bytes.data(), slots.bytes.size());
  // Blocks in another order than pages, each in every layer's own pool.
  std::vector<uint32_t> blocks(count);
  for (uint32_t i = 0; i < count; ++i) blocks[i] = i;
  std::ranges::shuffle(blocks, random);
  const DeviceMemory pool(gpu, count * kPageBytes);
  std::vector<uint64_t> bases(kPieces);
  for (uint32_t i = 0; i < kPieces; ++i) bases[i] = pool.at(uint64_t{i} * count * kPieceBytes);
  const DeviceMemory base_table(gpu, kPieces * 8);
  base_table.put(bases.data(), kPieces * 8);
  std::vector<cuda::PageItem> made(count);
  std::vector<PageFinding> expected(count);
  uint32_t bad = 0;
  for (uint32_t i = 0; i < count; ++i) {
    made[i] = expected_page(i, staged.at(i * kSlotBytes), blocks[i]);
    if (i % 3 == 0) {
      made[i].min_version = made[i].version;
      made[i].version = 0;
    }
    expected[i] = expected_finding(slots, i, made[i]);
    bad += expected[i] != PageFinding::kGood;
  }
  const DeviceMemory items(gpu, count * sizeof(cuda::PageItem));
  items.put(made.data(), count * sizeof(cuda::PageItem));
  const DeviceMemory findings(gpu, count);
  const uint32_t words = (count + 31) / 32;
  const DeviceMemory bitmap(gpu, words * 4);
  const Stream stream(gpu);
  const cuda::PageBatch batch{
      items.at(),
      count,
      kPageBytes,
      {reinterpret_cast<const uint64_t*>(base_table.at()), kPieceBytes, kPieces, kPieceBytes},
      {reinterpret_cast<uint8_t*>(findings.at()), reinterpret_cast<uint32_t*>(bitmap.at()),
       nullptr}};
  const auto run = [&](const char* name, bool checks, const auto& start) {
    pool.fill(kPoison);
    findings.fill(0xFF);
    bitmap.fill(0);
    start();
    stream.wait();
    std::vector<std::byte> landed(count * kPageBytes);
    pool.get(landed.data(), landed.size());
    std::vector<uint8_t> found(count);
    findings.get(found.data(), count);
    std::vector<uint32_t> bits(words);
    bitmap.get(bits.data(), words * 4);
    uint32_t wrong_findings = 0;
    uint32_t wrong_bits = 0;
    uint32_t wrong_bytes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const bool good = !checks || expected[i] == PageFinding::kGood;
      if (checks) {
        wrong_findings += found[i] != static_cast<uint8_t>(expected[i]);
        wrong_bits += (bits[i / 32] >> i % 32 & 1) != (good ? 1u : 0u);
      }
      bool same = true;
      for (uint32_t piece = 0; piece < kPieces; ++piece) {
        const std::byte* at = landed.data() + (uint64_t{piece} * count + blocks[i]) * kPieceBytes;
        const std::byte* from = slots.slot(i) + kHeaderBytes + piece * kPieceBytes;
        for (uint32_t k = 0; k < kPieceBytes && same; ++k) {
          same = at[k] == (good ? from[k] : std::byte{kPoison});
        }
      }
      wrong_bytes += !same;
    }
    fmt::print("check  {:24} {:5} pages, {} bad; wrong: {} findings, {} bits, {} destinations\n",
               name, count, checks ? bad : 0, wrong_findings, wrong_bits, wrong_bytes);
  };
  for (const FusedWay& way : fused_ways(gpu)) {
    run(way.name, true,
        [&] { expect_started(gpu.kernels().check_and_scatter(way.kernel, stream.get(), batch)); });
  }
  for (const ScatterWay& way : scatter_ways(gpu)) {
    run(way.name, false, [&] { scatter(gpu, stream, way.scatter, batch); });
  }
}

}  // namespace farpage::gpu_bench
