#pragma once

#include "transport/cuda/kernels/header_check.h"

namespace farpage::cuda {

__device__ constexpr CrcConstants kCrcConstants = make_crc_constants();

enum class Space { kGlobal, kShared };

// This thread as a lane of its warp, for warp_crc.h.
template <Space kSpace>
struct DeviceWarp {
  using Word = uint32_t;
  const unsigned char* mine;  // the page, moved on by this lane's place in its warp
  int lane_offset;

  static __device__ __forceinline__ uint32_t shuffle(uint32_t table, uint32_t lane) {
    return __shfl_sync(0xFFFFFFFFu, table, static_cast<int>(lane));
  }
  __device__ __forceinline__ uint32_t inner(int offset) const {
    const unsigned char* at = mine + offset;
    uint32_t word;
    if constexpr (kSpace == Space::kGlobal) {
      asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(word) : "l"(at));
    } else {
      word = *reinterpret_cast<const uint32_t*>(at);
    }
    return word;
  }
  __device__ __forceinline__ uint32_t edge(int offset, int bytes) const {
    const auto read = [this](int at) { return inner(at - lane_offset); };
    return edge_word(read, offset + lane_offset, bytes);
  }
};

// This warp's share of the register of a page's CRC, the same in every lane: the exclusive-or of the
// shares of all `kWarps` warps makes finish_crc() the CRC.
template <int kWarps, Space kSpace>
__device__ __forceinline__ uint32_t crc_share(const unsigned char* page, int bytes, int warp) {
  static_assert(kWarps == 2 || kWarps == 4);
  const int lane = threadIdx.x % kLanes;
  const int first_column = warp * kLanes;
  uint32_t table[kDigits];
#pragma unroll
  for (int digit = 0; digit < kDigits; ++digit) {
    table[digit] = kCrcConstants.next_row[kWarps / 4][digit][lane];
  }
  const DeviceWarp<kSpace> self{page + lane * kWordBytes, lane * kWordBytes};
  const uint32_t factor = kCrcConstants.column[kLanes * kWarps - 1 - first_column - lane];
  return __reduce_xor_sync(0xFFFFFFFFu,
                           crc_shares(self, bytes, kWarps, first_column, table, factor));
}

// By a whole warp: each lane takes one word of the header.
__device__ __forceinline__ Finding check_header_by_warp(const PageItem& page) {
  const auto* header = reinterpret_cast<const HeaderWords*>(page.header);
  const int lane = threadIdx.x % kLanes;
  uint32_t share = 0;
  if (lane < kHeaderCrcWords) {
    share = header_share(reinterpret_cast<const uint32_t*>(header)[lane], lane, kCrcConstants);
  }
  return judge_header(*header, ~__reduce_xor_sync(0xFFFFFFFFu, share), page);
}

// By one thread, once it knows.
__device__ __forceinline__ void tell(const PageFindings& out, uint32_t page, Finding finding,
                                     uint32_t crc) {
  if (out.crcs != nullptr) out.crcs[page] = crc;
  if (out.findings != nullptr) out.findings[page] = finding;
  if (out.bitmap != nullptr && finding == kGood) atomicOr(&out.bitmap[page / 32], 1u << page % 32);
}

__device__ __forceinline__ unsigned char* piece_at(const PagedLayout& layout, uint32_t block,
                                                   uint32_t piece) {
  return reinterpret_cast<unsigned char*>(layout.bases[piece] + block * layout.block_stride);
}

}  // namespace farpage::cuda
