// Kernels that farpage_gpu_pages measures, each in the variants that are compared.

#include "transport/cuda/kernels/page_kernels.cuh"

using namespace farpage::cuda;

#define CRC_GLOBAL(name, warps, ahead, block, least)                                              \
  extern "C" __global__ void __launch_bounds__(block * 32, least)                                 \
      name(const PageItem* pages, uint32_t count, PagedLayout, PageFindings out) {                \
    crc_pages<warps, ahead, block>(pages, count, out);                                            \
  }
CRC_GLOBAL(crc_w1_a1, 1, 1, 4, 4)
CRC_GLOBAL(crc_w1_o5, 1, 1, 4, 5)
CRC_GLOBAL(crc_w2_o5, 2, 1, 4, 5)
CRC_GLOBAL(crc_w1_a2, 1, 2, 4, 3)
CRC_GLOBAL(crc_w2_a1, 2, 1, 4, 4)
CRC_GLOBAL(crc_w2_a2, 2, 2, 4, 3)
CRC_GLOBAL(crc_w4_a1, 4, 1, 4, 4)
CRC_GLOBAL(crc_w4_a2, 4, 2, 4, 3)
CRC_GLOBAL(crc_w8_a1, 8, 1, 8, 2)

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define SHARED(name, warps, check, scatter)                                                       \
  extern "C" __global__ void __launch_bounds__(warps * 32)                                        \
      name(const PageItem* pages, uint32_t count, PagedLayout layout, PageFindings out) {         \
    pages_through_shared<warps, check, scatter>(pages, count, layout, out);                       \
  }
SHARED(crc_shared_w2, 2, true, false)
SHARED(crc_shared_w4, 4, true, false)
SHARED(crc_shared_w8, 8, true, false)
SHARED(fused_shared_w2, 2, true, true)
SHARED(fused_shared_w4, 4, true, true)
SHARED(fused_shared_w8, 8, true, true)
SHARED(scatter_shared_w4, 4, false, true)
#endif

#define TWICE(name, warps, check)                                                                 \
  extern "C" __global__ void __launch_bounds__(warps * 32)                                        \
      name(const PageItem* pages, uint32_t count, PagedLayout layout, PageFindings out) {         \
    pages_read_twice<warps, check>(pages, count, layout, out);                                    \
  }
TWICE(fused_twice_w4, 4, true)
TWICE(fused_twice_w8, 8, true)
TWICE(scatter_w4, 4, false)
TWICE(scatter_w8, 8, false)

// CRC-32C by tables, for comparison: slicing by four, with a copy of the tables for each of the 32
// banks, so that no look-up waits for another. Pages of whole rows of 512 bytes.
__device__ constexpr auto kByteTables = [] {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  const uint32_t factor = power_of_x_by_squaring(512 * 8);
  for (int byte = 0; byte < 4; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t one = multiply(uint32_t{1} << (8 * byte + bit), factor);
      for (int value = 0; value < 256; ++value) tables[byte][value] ^= (value >> bit & 1) ? one : 0;
    }
  }
  return tables;
}();

extern "C" __global__ void __launch_bounds__(1024, 1)
    crc_tables(const PageItem* pages, uint32_t count, PagedLayout, PageFindings out) {
  extern __shared__ __align__(128) uint32_t banks[];  // [byte][value][bank]
  for (uint32_t i = threadIdx.x; i < 4 * 256 * 32; i += blockDim.x) {
    banks[i] = kByteTables[i / (256 * 32)][i / 32 % 256];
  }
  __syncthreads();
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t base = shared_address(banks) + lane * 4;
  for (uint32_t page = blockIdx.x * 32 + threadIdx.x / 32; page < count; page += gridDim.x * 32) {
    const auto* from = reinterpret_cast<const uint4*>(pages[page].payload) + lane;
    const uint32_t rows = pages[page].payload_bytes / 512;
    uint32_t sum[4] = {lane == 0 ? 0 : 0u, 0, 0, 0};
    for (uint32_t row = 0; row < rows; row += 8) {
      uint4 part[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) part[i] = __ldcs(from + (row + i) * 32);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint32_t in[4] = {part[i].x, part[i].y, part[i].z, part[i].w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          uint32_t t[4];
          const uint32_t s = sum[j];
          asm("ld.shared.b32 %0, [%1];" : "=r"(t[0]) : "r"((s << 7 & 0x7F80) + base));
          asm("ld.shared.b32 %0, [%1+32768];" : "=r"(t[1]) : "r"((s >> 1 & 0x7F80) + base));
          asm("ld.shared.b32 %0, [%1+65536];" : "=r"(t[2]) : "r"((s >> 9 & 0x7F80) + base));
          asm("ld.shared.b32 %0, [%1+98304];" : "=r"(t[3]) : "r"((s >> 17 & 0x7F80) + base));
          sum[j] = t[0] ^ t[1] ^ t[2] ^ t[3] ^ in[j];
          if (row + i == 0 && j == 0 && lane == 0) sum[j] ^= 0xFFFFFFFFu;
        }
      }
    }
    uint32_t share = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      share ^= multiply_lanes(sum[j], kCrcConstants.column[127 - (lane * 4 + j)]);
    }
    share = __reduce_xor_sync(0xFFFFFFFFu, share);
    if (lane == 0) tell(out, page, kGood, ~share);
  }
}

// What the memory gives: all 16-byte words of `bytes`, added up.
template <int kAtOnce>
__device__ __forceinline__ void read_all(const uint4* from, uint64_t bytes, uint32_t* sums) {
  const uint64_t words = bytes / sizeof(uint4);
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  uint32_t sum = 0;
  for (uint64_t first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < words;
       first += stride * kAtOnce) {
    uint4 part[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      part[i] = first + i * stride < words ? __ldcs(from + first + i * stride) : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) sum ^= part[i].x ^ part[i].y ^ part[i].z ^ part[i].w;
  }
  sum = __reduce_xor_sync(0xFFFFFFFFu, sum);
  if (threadIdx.x % 32 == 0) atomicXor(sums, sum);
}
extern "C" __global__ void __launch_bounds__(512)
    read_4(const uint4* from, uint64_t bytes, uint32_t* sums) {
  read_all<4>(from, bytes, sums);
}
extern "C" __global__ void __launch_bounds__(512)
    read_8(const uint4* from, uint64_t bytes, uint32_t* sums) {
  read_all<8>(from, bytes, sums);
}

extern "C" __global__ void set_flag(volatile uint64_t* flag, uint64_t value) { *flag = value; }

extern "C" __global__ void wait_then_set(volatile uint64_t* counter, volatile uint64_t* flag,
                                         uint64_t value) {
  while (*counter < value) {
  }
  *flag = value;
}
