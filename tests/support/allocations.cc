#include "tests/support/allocations.h"

#include <cstddef>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

thread_local bool counting = false;
thread_local uint64_t allocations = 0;

void count_allocation() {
  allocations += counting ? 1 : 0;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  count_allocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
}

namespace farpage {

void start_counting_allocations() {
  allocations = 0;
  counting = true;
}

uint64_t stop_counting_allocations() {
  counting = false;
  return allocations;
}

}  // namespace farpage
