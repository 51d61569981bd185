#pragma once

#include <cstdint>

namespace farpage::cuda {

// The shape of every kernel's blocks.
inline constexpr unsigned kBlockWarps = 4;
inline constexpr unsigned kBlockThreads = 32 * kBlockWarps;
inline constexpr unsigned kCrcPagesPerBlock = 2;  // of farpage_page_crcs; the others take one

// One page of a batch, as kernels read it. Addresses are the device's.
struct alignas(16) PageItem {
  uint64_t payload = 0;  // of one that is gathered: where to
  uint64_t header = 0;   // 64 bytes (docs/formats/slot.md)
  uint64_t key_low = 0;
  uint64_t key_high = 0;
  uint64_t version = 0;  // exactly this one; 0: any that is at least min_version
  uint64_t min_version = 0;
  uint64_t incarnation = 0;
  uint32_t payload_bytes = 0;
  uint32_t block = 0;  // of the engine's pool: where the page goes, or comes from
  uint64_t check = 0;  // item_check() of all of these, for pages of a layout
};
static_assert(sizeof(PageItem) == 80);

// An engine's paged memory. A page's payload is `pieces` pieces of `piece_bytes`, one after the
// other: layers, keys and values, heads. Piece i of the page in block b lies at
// bases[i] + b * block_stride. All of them are multiples of 16.
struct PagedLayout {
  const uint64_t* bases = nullptr;  // in device memory
  uint64_t block_stride = 0;
  uint32_t pieces = 0;
  uint32_t piece_bytes = 0;
};

// Where kernels write what they found, in memory that the device can write; null: nowhere.
struct PageFindings {
  uint8_t* findings = nullptr;  // [page]: farpage::PageFinding
  uint32_t* bitmap = nullptr;   // bit page % 32 of word page / 32 is set if the page is good
  uint32_t* crcs = nullptr;     // [page]: CRC-32C of the payload
};

}  // namespace farpage::cuda
