#pragma once

#include "transport/cuda/kernels/bulk_copy.cuh"
#include "transport/cuda/kernels/device_page.cuh"

namespace farpage::cuda {

// CRC-32C alone, straight from global memory: kWarps warps a page, kBlockWarps / kWarps pages a
// block.
template <int kWarps, int kAhead, int kBlockWarps>
__device__ __forceinline__ void crc_pages(const PageItem* pages, uint32_t count, PageFindings out) {
  __shared__ uint32_t shares[kBlockWarps];
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t page = blockIdx.x * (kBlockWarps / kWarps) + warp / kWarps;
  uint32_t share = 0;
  uint32_t bytes = 0;
  if (page < count) {
    bytes = pages[page].payload_bytes;
    share = crc_share<kWarps, kAhead, Space::kGlobal>(
        reinterpret_cast<const unsigned char*>(pages[page].payload), bytes, warp % kWarps);
  }
  if constexpr (kWarps > 1) {
    if (threadIdx.x % kLanes == 0) shares[warp] = share;
    __syncthreads();
    share = 0;
    for (int i = 0; i < kWarps; ++i) share ^= shares[warp / kWarps * kWarps + i];
  }
  if (page < count && threadIdx.x % (kWarps * kLanes) == 0) {
    tell(out, page, kGood, finish_crc(share, bytes));
  }
}

// A batch of pages through shared memory, a block a page at a time: in by one bulk copy, checked
// where it lies, out to the engine's layout by a bulk copy a piece. Each byte is read once, so what
// is stored is what was checked. A bad page is not stored.
template <int kWarps, bool kCheck, bool kScatter>
__device__ __forceinline__ void pages_through_shared(const PageItem* pages, uint32_t count,
                                                     PagedLayout layout, PageFindings out) {
  extern __shared__ __align__(128) unsigned char staged[];
  __shared__ alignas(8) uint64_t landed;
  __shared__ uint32_t shares[kWarps];
  __shared__ uint32_t good;
  const uint32_t warp = threadIdx.x / kLanes;
  if (threadIdx.x == 0) init_barrier(&landed);
  __syncthreads();
  uint32_t parity = 0;
  for (uint32_t at = blockIdx.x; at < count; at += gridDim.x) {
    const PageItem& page = pages[at];
    const uint32_t bytes = page.payload_bytes;
    if (threadIdx.x == 0) {
      expect_bytes(&landed, bytes);
      bulk_load(staged, reinterpret_cast<const void*>(page.payload), bytes, &landed);
    }
    Finding finding = kGood;
    if (kCheck && kScatter && warp == 0) finding = check_header_by_warp(page);
    wait_for_phase(&landed, parity);
    parity ^= 1;
    bool store = true;
    if constexpr (kCheck) {
      const uint32_t share = crc_share<kWarps, 1, Space::kShared>(staged, bytes, warp);
      if (threadIdx.x % kLanes == 0) shares[warp] = share;
      __syncthreads();
      if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (int i = 0; i < kWarps; ++i) sum ^= shares[i];
        const uint32_t crc = finish_crc(sum, bytes);
        if (kScatter && finding == kGood &&
            crc != reinterpret_cast<const HeaderWords*>(page.header)->payload_crc) {
          finding = kCorrupt;
        }
        good = finding == kGood;
        tell(out, at, finding, crc);
      }
      __syncthreads();
      store = good != 0;
    }
    if (kScatter && store) {
      for (uint32_t piece = threadIdx.x; piece < layout.pieces; piece += blockDim.x) {
        bulk_store(piece_at(layout, page.block, piece), staged + piece * layout.piece_bytes,
                   layout.piece_bytes);
      }
      wait_until_stores_have_read();
    }
    __syncthreads();
  }
}

// The same for pages that do not fit, and for GPUs without bulk copies: the page is read twice, the
// second time out of the cache. Nobody writes a staged page meanwhile.
template <int kWarps>
__device__ __forceinline__ void store_page(const PageItem& page, const PagedLayout& layout) {
  constexpr int kAtOnce = 8;
  const uint32_t vectors = layout.piece_bytes / sizeof(uint4);
  const auto* from = reinterpret_cast<const uint4*>(page.payload);
  const uint32_t all = vectors * layout.pieces;
  for (uint32_t first = threadIdx.x; first < all; first += kAtOnce * kWarps * kLanes) {
    uint4 part[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t at = first + i * kWarps * kLanes;
      if (at < all) part[i] = __ldcs(from + at);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t at = first + i * kWarps * kLanes;
      if (at < all) {
        auto* to = reinterpret_cast<uint4*>(piece_at(layout, page.block, at / vectors));
        __stcs(to + at % vectors, part[i]);
      }
    }
  }
}

template <int kWarps, bool kCheck>
__device__ __forceinline__ void pages_read_twice(const PageItem* pages, uint32_t count,
                                                 PagedLayout layout, PageFindings out) {
  __shared__ uint32_t shares[kWarps];
  __shared__ uint32_t good;
  const uint32_t warp = threadIdx.x / kLanes;
  for (uint32_t at = blockIdx.x; at < count; at += gridDim.x) {
    const PageItem& page = pages[at];
    bool store = true;
    if constexpr (kCheck) {
      Finding finding = kGood;
      if (warp == 0) finding = check_header_by_warp(page);
      const uint32_t share = crc_share<kWarps, 1, Space::kGlobal>(
          reinterpret_cast<const unsigned char*>(page.payload), page.payload_bytes, warp);
      if (threadIdx.x % kLanes == 0) shares[warp] = share;
      __syncthreads();
      if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (int i = 0; i < kWarps; ++i) sum ^= shares[i];
        const uint32_t crc = finish_crc(sum, page.payload_bytes);
        if (finding == kGood &&
            crc != reinterpret_cast<const HeaderWords*>(page.header)->payload_crc) {
          finding = kCorrupt;
        }
        good = finding == kGood;
        tell(out, at, finding, crc);
      }
      __syncthreads();
      store = good != 0;
    }
    if (store) store_page<kWarps>(page, layout);
    __syncthreads();
  }
}

}  // namespace farpage::cuda
