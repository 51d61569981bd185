#pragma once

#include "transport/cuda/kernels/header_check.h"

namespace farpage::cuda {

__device__ constexpr CrcConstants kCrcConstants = make_crc_constants();

// This thread as a lane of its warp, for warp_crc.h.
struct DeviceWarp {
  using Word = uint32_t;
  static __device__ __forceinline__ uint32_t shuffle(uint32_t table, uint32_t lane) {
    return __shfl_sync(0xFFFFFFFFu, table, static_cast<int>(lane));
  }
};

enum class Space { kGlobal, kShared };

// A page's column of this thread. Columns are numbered through the page's warps.
template <Space kSpace>
struct DeviceColumn {
  const unsigned char* page;
  int bytes;
  Rows rows;
  int column;

  static __device__ __forceinline__ uint32_t word_at(const unsigned char* at) {
    uint32_t word;
    if constexpr (kSpace == Space::kGlobal) {
      asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(word) : "l"(at));
    } else {
      word = *reinterpret_cast<const uint32_t*>(at);
    }
    return word;
  }

  __device__ __forceinline__ void load(int first, uint32_t (&words)[kGroup]) const {
    const int begin = rows.offset(first);
    const int mine = begin + column * kWordBytes;
    if (begin > 0 && begin + kGroup * rows.row_bytes <= bytes) {
      // Nothing here touches what is on its way.
      const unsigned char* from = page + mine;
#pragma unroll
      for (int i = 0; i < kGroup; ++i) words[i] = word_at(from + i * rows.row_bytes);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const int offset = mine + i * rows.row_bytes;
        words[i] = 0;
        if (offset >= 0) {
          words[i] = word_at(page + offset) & page_bits(offset, bytes) ^ initial_bits(offset);
        }
      }
    }
  }
};

// This warp's share of the register of a page's CRC, the same in every lane: the exclusive-or of the
// shares of all `kWarps` warps, inverted, is the CRC of a page of whole words.
template <int kWarps, int kAhead, Space kSpace>
__device__ __forceinline__ uint32_t crc_share(const unsigned char* page, int bytes, int warp) {
  constexpr int kLog = kWarps == 1 ? 0 : kWarps == 2 ? 1 : kWarps == 4 ? 2 : 3;
  const int lane = threadIdx.x % kLanes;
  const int column = warp * kLanes + lane;
  uint32_t table[kDigits];
#pragma unroll
  for (int digit = 0; digit < kDigits; ++digit) {
    table[digit] = kCrcConstants.next_row[kLog][digit][lane];
  }
  const DeviceColumn<kSpace> source{page, bytes, Rows(bytes, kWarps), column};
  const uint32_t remainder =
      column_remainder<DeviceWarp, kAhead>(source, source.rows.count, table);
  const uint32_t factor = kCrcConstants.column[kLanes * kWarps - 1 - column];
  return __reduce_xor_sync(0xFFFFFFFFu, multiply_lanes(remainder, factor));
}

// The CRC, from the exclusive-or of its shares.
__device__ __forceinline__ uint32_t finish_crc(uint32_t shares, uint32_t bytes) {
  const int padding = static_cast<int>(-bytes & (kWordBytes - 1));
  if (padding != 0) shares = multiply_lanes(shares, kCrcConstants.shorten[padding]);
  return ~shares;
}

// By a whole warp: each lane takes one word of the header.
__device__ __forceinline__ Finding check_header_by_warp(const PageItem& page) {
  const auto* header = reinterpret_cast<const HeaderWords*>(page.header);
  const int lane = threadIdx.x % kLanes;
  uint32_t share = 0;
  if (lane < kHeaderCrcWords) {
    const uint32_t word = reinterpret_cast<const uint32_t*>(header)[lane];
    share = multiply_lanes(word ^ (lane == 0 ? 0xFFFFFFFFu : 0u),
                           kCrcConstants.column[kHeaderCrcWords - 1 - lane]);
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
