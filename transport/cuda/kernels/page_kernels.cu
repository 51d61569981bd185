// The kernels that transport/cuda/page_kernels.h starts.

#include "include/farpage/fence.h"
#include "transport/cuda/kernels/page_kernels.cuh"

using namespace farpage::cuda;

// Four blocks a processor leave each thread 128 registers, of which the window takes 64.
extern "C" __global__ void __launch_bounds__(kBlockThreads, 4)
    farpage_page_crcs(const PageItem* pages, uint32_t count, PageFindings out) {
  crc_pages<kBlockWarps / kCrcPagesPerBlock>(pages, count, out);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
extern "C" __global__ void __launch_bounds__(kBlockThreads)
    farpage_pages_through_shared(const PageItem* pages, uint32_t count, PagedLayout layout,
                                 PageFindings out) {
  pages_through_shared<true>(pages, count, layout, out);
}
#endif

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    farpage_pages_read_twice(const PageItem* pages, uint32_t count, PagedLayout layout,
                             PageFindings out) {
  pages_read_twice<true>(pages, count, layout, out);
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    farpage_gather_pages(const PageItem* pages, uint32_t count, PagedLayout layout,
                         PageFindings out) {
  gather_pages(pages, count, layout, out);
}

// One thread is enough: the stream goes on once the block has ended.
extern "C" __global__ void farpage_wait_at_fence(const farpage_fence_words* fence) {
  if (threadIdx.x == 0) farpage_await_fence(fence);
}
