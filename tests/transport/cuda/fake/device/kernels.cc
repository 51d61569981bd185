// transport/cuda/kernels/page_kernels.cuh on the CPU. CRC and header are judged by the kernels' own
// code (warp_crc.h, header_check.h); what is here is only the order of a block's steps.

#include "tests/transport/cuda/fake/device/kernels.h"

#include <farpage/fence.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "tests/transport/cuda/fake/results.h"
#include "tests/transport/cuda/warp_emulation.h"
#include "transport/cuda/kernels/header_check.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kVector = 16;
const CrcConstants kConstants = make_crc_constants();

uint64_t number(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

void tell(DeviceAccess& device, const PageFindings& out, uint32_t page, Finding finding,
          uint32_t crc) {
  if (out.crcs != nullptr) {
    std::byte* const at = device.write(number(out.crcs + page), sizeof crc, sizeof crc);
    if (at != nullptr) std::memcpy(at, &crc, sizeof crc);
  }
  if (out.findings != nullptr) {
    std::byte* const at = device.write(number(out.findings + page), 1, 1);
    if (at != nullptr) *at = static_cast<std::byte>(finding);
  }
  if (out.bitmap != nullptr && finding == kGood) {
    std::byte* const at = device.write(number(out.bitmap + page / 32), 4, 4);
    if (at != nullptr) {
      std::atomic_ref(*reinterpret_cast<uint32_t*>(at)).fetch_or(uint32_t{1} << page % 32);
    }
  }
}

// All of the payload that a GPU reads: whole words.
const std::byte* payload_of(DeviceAccess& device, const PageItem& page, uint64_t alignment) {
  const uint64_t padded = (uint64_t{page.payload_bytes} + kWordBytes - 1) / kWordBytes * kWordBytes;
  return device.read(page.payload, padded, alignment);
}

Finding judge(const HeaderWords& header, const PageItem& page, uint32_t crc) {
  uint32_t words[kHeaderCrcWords];
  std::memcpy(words, &header, sizeof words);
  uint32_t shares = 0;
  for (int at = 0; at < kHeaderCrcWords; ++at) shares ^= header_share(words[at], at, kConstants);
  const Finding finding = judge_header(header, ~shares, page);
  return finding == kGood && crc != header.payload_crc ? kCorrupt : finding;
}

// Where each piece of the page lies, by the launch's layout; `move` says whether to go on.
template <typename Move>
void for_each_piece(DeviceAccess& device, const Launch& launch, const PageItem& page,
                    const Move& move) {
  const PagedLayout& layout = launch.layout;
  if (uint64_t{layout.pieces} * layout.piece_bytes > page.payload_bytes) {
    device.note(kIllegalAddress);  // a GPU would go on behind the page
    return;
  }
  if (layout.piece_bytes % kVector != 0) return device.note(kMisalignedAddress);
  for (uint32_t piece = 0; piece < layout.pieces; ++piece) {
    const std::byte* const base = device.read(number(layout.bases + piece), 8, 8);
    if (base == nullptr) return;
    uint64_t at = 0;
    std::memcpy(&at, base, sizeof at);
    if (!move(at + page.block * layout.block_stride, uint64_t{piece} * layout.piece_bytes)) return;
  }
}

void scatter(DeviceAccess& device, const Launch& launch, const PageItem& page,
             const std::byte* payload) {
  const uint32_t bytes = launch.layout.piece_bytes;
  for_each_piece(device, launch, page, [&](uint64_t at, uint64_t offset) {
    std::byte* const target = device.write(at, bytes, kVector);
    if (target != nullptr) std::memcpy(target, payload + offset, bytes);
    return target != nullptr;
  });
}

// In one of the fields that the kernel follows.
void spoil(PageItem& page, const Launch& launch, uint32_t at) {
  const uint64_t number = launch.pages_before + at + 1;
  if (launch.spoil_every == 0 || number % launch.spoil_every != 0) return;
  switch (std::mt19937_64(launch.seed + at)() % 3) {
    case 0:
      page.block ^= 1;
      break;
    case 1:
      page.payload ^= 64;
      break;
    default:
      page.check ^= 1;
  }
}

bool take_page(DeviceAccess& device, const Launch& launch, uint32_t at, PageItem& page) {
  const std::byte* const item = device.read(launch.items + at * sizeof page, sizeof page, 16);
  if (item != nullptr) std::memcpy(&page, item, sizeof page);
  if (item != nullptr) spoil(page, launch, at);
  return item != nullptr;
}

void crc_block(DeviceAccess& device, const Launch& launch, uint32_t block) {
  for (uint32_t i = 0; i < kCrcPagesPerBlock; ++i) {
    const uint32_t at = block * kCrcPagesPerBlock + i;
    PageItem page;
    if (at >= launch.count || !take_page(device, launch, at, page)) continue;
    const std::byte* const payload = payload_of(device, page, kWordBytes);
    if (payload == nullptr) continue;
    tell(device, launch.out, at, kGood,
         emulated_crc(payload, static_cast<int>(page.payload_bytes), kBlockWarps / 2));
  }
}

// `staged`: the page is read once, into shared memory.
void check_block(DeviceAccess& device, const Launch& launch, uint32_t at, bool staged) {
  PageItem page;
  if (at >= launch.count || !take_page(device, launch, at, page)) return;
  if (page.check != item_check(page)) return tell(device, launch.out, at, kCorrupt, 0);
  const std::byte* payload = payload_of(device, page, kVector);
  const std::byte* const header = device.read(page.header, sizeof(HeaderWords), 8);
  if (payload == nullptr || header == nullptr) return;
  std::vector<std::byte> shared;
  if (staged) {
    if (page.payload_bytes > launch.shared_bytes) return device.note(kIllegalAddress);
    if (page.payload_bytes % kVector != 0) return device.note(kMisalignedAddress);
    shared.assign(payload, payload + page.payload_bytes);
    payload = shared.data();
  }
  HeaderWords words;
  std::memcpy(&words, header, sizeof words);
  const uint32_t crc = emulated_crc(payload, static_cast<int>(page.payload_bytes), kBlockWarps);
  const Finding finding = judge(words, page, crc);
  tell(device, launch.out, at, finding, crc);
  if (finding == kGood) scatter(device, launch, page, payload);
}

void gather_block(DeviceAccess& device, const Launch& launch, uint32_t at) {
  PageItem page;
  if (at >= launch.count || !take_page(device, launch, at, page)) return;
  if (page.check != item_check(page)) return tell(device, launch.out, at, kCorrupt, 0);
  const uint32_t bytes = launch.layout.piece_bytes;
  for_each_piece(device, launch, page, [&](uint64_t piece, uint64_t offset) {
    const std::byte* const source = device.read(piece, bytes, kVector);
    std::byte* const target = device.write(page.payload + offset, bytes, kVector);
    if (source == nullptr || target == nullptr) return false;
    std::memcpy(target, source, bytes);
    return true;
  });
  if (device.error() == 0) tell(device, launch.out, at, kGood, 0);
}

template <typename T>
void take(T& value, const void* parameter) {
  std::memcpy(&value, parameter, sizeof value);
}

}  // namespace

bool take_parameters(Launch& launch, void** parameters) {
  take(launch.items, parameters[0]);
  if (launch.kernel == "farpage_wait_at_fence") return true;
  take(launch.count, parameters[1]);
  if (launch.kernel == "farpage_page_crcs") {
    take(launch.out, parameters[2]);
    return true;
  }
  take(launch.layout, parameters[2]);
  take(launch.out, parameters[3]);
  return launch.kernel == "farpage_gather_pages" ||
         launch.kernel == "farpage_pages_through_shared" ||
         launch.kernel == "farpage_pages_read_twice";
}

void run_kernel(const Launch& launch, DeviceAccess& device) {
  if (launch.kernel == "farpage_wait_at_fence") {
    device.read(launch.items, sizeof(farpage_fence_words), 8);  // it has waited
    return;
  }
  std::vector<uint32_t> order(launch.blocks);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::shuffle(order, std::mt19937_64(launch.seed));  // no order among blocks is promised
  for (const uint32_t block : order) {
    if (launch.kernel == "farpage_page_crcs") {
      crc_block(device, launch, block);
    } else if (launch.kernel == "farpage_gather_pages") {
      gather_block(device, launch, block);
    } else {
      check_block(device, launch, block, launch.kernel == "farpage_pages_through_shared");
    }
    if (device.error() != 0) return;
  }
}

}  // namespace farpage::cuda
