// What work on a GPU sees of a fence (farpage_fence_new() in farpage.h), for kernels: C, C++ and
// CUDA. It needs no library.
#pragma once

#include <stdint.h>

// In memory that the device reads, at farpage_fence_address(). A word for each 32 pages lies behind
// it: farpage_fence_bits().
typedef struct farpage_fence_words {
  uint64_t begun;    // fetches with this fence so far
  uint64_t decided;  // those of them whose pages all have their verdict
  uint64_t pages;    // of the last one
  uint64_t reserved[5];
} farpage_fence_words_t;

#if defined(__CUDACC__)
#define FARPAGE_ON_BOTH static __host__ __device__ __forceinline__
#else
#define FARPAGE_ON_BOTH static inline
#endif

// Bit i % 32 of word i / 32: page i of the last fetch is ready. All others are to be computed. Read
// them behind the wait alone.
FARPAGE_ON_BOTH const uint32_t* farpage_fence_bits(const farpage_fence_words_t* fence) {
  return (const uint32_t*)(fence + 1);
}

FARPAGE_ON_BOTH int farpage_fence_is_ready(const farpage_fence_words_t* fence, uint64_t page) {
  const volatile farpage_fence_words_t* words = fence;
  const volatile uint32_t* bits = farpage_fence_bits(fence);
  return page < words->pages && (bits[page / 32] >> page % 32 & 1u) != 0;
}

#undef FARPAGE_ON_BOTH

#if defined(__CUDACC__)
// Waits until every fetch that was begun with the fence has its verdicts, which is by their
// deadlines. What this thread reads afterwards of the pages and of the bits is as they left it;
// others of its block see that too, behind a __syncthreads(). Compute capability 7.0 and later.
static __device__ __forceinline__ void farpage_await_fence(const farpage_fence_words_t* fence) {
  uint64_t begun;
  uint64_t decided;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(begun) : "l"(&fence->begun) : "memory");
  do {
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
                 : "=l"(decided)
                 : "l"(&fence->decided)
                 : "memory");
  } while (decided < begun);
}
#endif
