#pragma once

#include "transport/cuda/kernels/bulk_copy.cuh"
#include "transport/cuda/kernels/device_page.cuh"

namespace farpage::cuda {

// CRC-32C alone, straight from global memory: kWarps warps a page.
template <int kWarps>
__device__ __forceinline__ void crc_pages(const PageItem* pages, uint32_t count, PageFindings out) {
  __shared__ uint32_t shares[kBlockWarps];
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t page = blockIdx.x * (kBlockWarps / kWarps) + warp / kWarps;
  uint32_t share = 0;
  uint32_t bytes = 0;
  if (page < count) {
    bytes = pages[page].payload_bytes;
    share = crc_share<kWarps, Space::kGlobal>(
        reinterpret_cast<const unsigned char*>(pages[page].payload), bytes, warp % kWarps);
  }
  if (threadIdx.x % kLanes == 0) shares[warp] = share;
  __syncthreads();
  if (page < count && threadIdx.x % (kWarps * kLanes) == 0) {
    share = 0;
    for (int i = 0; i < kWarps; ++i) share ^= shares[warp + i];
    tell(out, page, kGood, finish_crc(share, bytes, kCrcConstants));
  }
}

// Of the block's page, read once by its first warp: whatever the memory says when it is read again,
// all threads follow the same words, which were checked.
__device__ __forceinline__ const PageItem& take_item(const PageItem* pages, uint32_t at) {
  constexpr uint32_t kWords = sizeof(PageItem) / sizeof(uint32_t);
  static_assert(kWords <= kLanes);
  __shared__ PageItem taken;
  if (threadIdx.x < kWords) {
    reinterpret_cast<uint32_t*>(&taken)[threadIdx.x] =
        reinterpret_cast<const volatile uint32_t*>(pages + at)[threadIdx.x];
  }
  __syncthreads();
  return taken;
}

// By the whole block, before it follows an address of the page's.
__device__ __forceinline__ bool is_whole(const PageItem& page, uint32_t at,
                                         const PageFindings& out) {
  if (page.check == item_check(page)) return true;
  if (threadIdx.x == 0) tell(out, at, kCorrupt, 0);
  return false;
}

// By the whole block, each warp with its share of the payload's CRC and the first with what the
// header showed: whether the page is good.
__device__ __forceinline__ bool judge_page(const PageItem& page, uint32_t at, Finding finding,
                                           uint32_t share, const PageFindings& out) {
  __shared__ uint32_t shares[kBlockWarps];
  __shared__ uint32_t good;
  if (threadIdx.x % kLanes == 0) shares[threadIdx.x / kLanes] = share;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t sum = 0;
    for (int i = 0; i < kBlockWarps; ++i) sum ^= shares[i];
    const uint32_t crc = finish_crc(sum, page.payload_bytes, kCrcConstants);
    if (finding == kGood && crc != reinterpret_cast<const HeaderWords*>(page.header)->payload_crc) {
      finding = kCorrupt;
    }
    good = finding == kGood;
    tell(out, at, finding, crc);
  }
  __syncthreads();
  return good != 0;
}

// A batch of pages through shared memory, a page a block: in by one bulk copy, checked where it
// lies, out to the engine's layout by a bulk copy a piece. Each byte is read once, so what is stored
// is what was checked. A bad page is not stored. kCheck: without it, what a scatter alone costs.
template <bool kCheck>
__device__ __forceinline__ void pages_through_shared(const PageItem* pages, uint32_t count,
                                                     PagedLayout layout, PageFindings out) {
  extern __shared__ __align__(128) unsigned char staged[];
  __shared__ alignas(8) uint64_t landed;
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t at = blockIdx.x;
  if (at >= count) return;
  const PageItem& page = take_item(pages, at);
  if (kCheck && !is_whole(page, at, out)) return;
  const uint32_t bytes = page.payload_bytes;
  if (threadIdx.x == 0) init_barrier(&landed);
  __syncthreads();
  if (threadIdx.x == 0) {
    expect_bytes(&landed, bytes);
    bulk_load(staged, reinterpret_cast<const void*>(page.payload), bytes, &landed);
  }
  Finding finding = kGood;
  if (kCheck && warp == 0) finding = check_header_by_warp(page);
  wait_for_phase(&landed, 0);
  if constexpr (kCheck) {
    const uint32_t share = crc_share<kBlockWarps, Space::kShared>(staged, bytes, warp);
    if (!judge_page(page, at, finding, share, out)) return;
  }
  for (uint32_t piece = threadIdx.x; piece < layout.pieces; piece += blockDim.x) {
    bulk_store(piece_at(layout, page.block, piece), staged + piece * layout.piece_bytes,
               layout.piece_bytes);
  }
  wait_until_stores_have_read();
}

enum class Towards { kPieces, kPayload };

// Takes a page from its payload to its pieces, or back, by a whole block.
template <Towards kTo>
__device__ __forceinline__ void move_page(const PageItem& page, const PagedLayout& layout) {
  constexpr int kAtOnce = 8;
  const uint32_t vectors = layout.piece_bytes / sizeof(uint4);
  auto* const payload = reinterpret_cast<uint4*>(page.payload);
  const auto in_piece = [&](uint32_t at) {
    return reinterpret_cast<uint4*>(piece_at(layout, page.block, at / vectors)) + at % vectors;
  };
  const uint32_t all = vectors * layout.pieces;
  for (uint32_t first = threadIdx.x; first < all; first += kAtOnce * kBlockThreads) {
    uint4 part[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t at = first + i * kBlockThreads;
      if (at < all) part[i] = __ldcs(kTo == Towards::kPieces ? payload + at : in_piece(at));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t at = first + i * kBlockThreads;
      if (at < all) __stcs(kTo == Towards::kPieces ? in_piece(at) : payload + at, part[i]);
    }
  }
}

// The same for pages that do not fit, and for GPUs without bulk copies: the page is read twice, the
// second time out of the cache. So nobody may write a staged page meanwhile.
template <bool kCheck>
__device__ __forceinline__ void pages_read_twice(const PageItem* pages, uint32_t count,
                                                 PagedLayout layout, PageFindings out) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t at = blockIdx.x;
  if (at >= count) return;
  const PageItem& page = take_item(pages, at);
  if constexpr (kCheck) {
    if (!is_whole(page, at, out)) return;
    Finding finding = kGood;
    if (warp == 0) finding = check_header_by_warp(page);
    const uint32_t share = crc_share<kBlockWarps, Space::kGlobal>(
        reinterpret_cast<const unsigned char*>(page.payload), page.payload_bytes, warp);
    if (!judge_page(page, at, finding, share, out)) return;
  }
  move_page<Towards::kPieces>(page, layout);
}

// Writes each page's pieces to its payload, one behind the other.
__device__ __forceinline__ void gather_pages(const PageItem* pages, uint32_t count,
                                             PagedLayout layout, PageFindings out) {
  const uint32_t at = blockIdx.x;
  if (at >= count) return;
  const PageItem& page = take_item(pages, at);
  if (!is_whole(page, at, out)) return;
  move_page<Towards::kPayload>(page, layout);
  if (threadIdx.x == 0) tell(out, at, kGood, 0);
}

}  // namespace farpage::cuda
