// What farpage_gpu_pages compares the library's kernels with.

#include "transport/cuda/kernels/page_kernels.cuh"

using namespace farpage::cuda;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
extern "C" __global__ void __launch_bounds__(kBlockThreads)
    scatter_through_shared(const PageItem* pages, uint32_t count, PagedLayout layout,
                           PageFindings out) {
  pages_through_shared<false>(pages, count, layout, out);
}
#endif

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    scatter_by_loads(const PageItem* pages, uint32_t count, PagedLayout layout, PageFindings out) {
  pages_read_twice<false>(pages, count, layout, out);
}

// What the memory gives: all 16-byte words of `bytes`, added up.
extern "C" __global__ void __launch_bounds__(512)
    read_all(const uint4* from, uint64_t bytes, uint32_t* sums) {
  constexpr int kAtOnce = 8;
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

extern "C" __global__ void set_flag(volatile uint64_t* flag, uint64_t value) { *flag = value; }

extern "C" __global__ void wait_then_set(volatile uint64_t* counter, volatile uint64_t* flag,
                                         uint64_t value) {
  while (*counter < value) {
  }
  *flag = value;
}
