#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "integrity/crc32c.h"

namespace farpage {

// One way to copy and check. copy_with_crc32c() takes the first that this processor has; tests and
// the microbenchmark take each.
struct CopyKernel {
  const char* name;
  const char* needs;    // of the processor, for people
  bool available;       // the processor has it, and the system keeps its registers
  bool outruns_memcpy;  // where a copy is long, though it checks: docs/performance.md
  uint32_t (*copy)(uint32_t crc, void* destination, const void* source, size_t bytes,
                   Stores stores);
};

// The fastest first; the last one, of isa-l, is always available. Any thread.
std::span<const CopyKernel> copy_kernels();

// A kernel that folds while it copies: each byte is loaded once, and stored and folded from one
// register.
uint32_t fold_copy_avx512(uint32_t crc, void* destination, const void* source, size_t bytes,
                          Stores stores);
uint32_t fold_copy_avx2(uint32_t crc, void* destination, const void* source, size_t bytes,
                        Stores stores);
uint32_t fold_copy_sse(uint32_t crc, void* destination, const void* source, size_t bytes,
                       Stores stores);
// memcpy of 2 KiB, and isa-l's CRC of what then lies there. It never streams.
uint32_t copy_then_check(uint32_t crc, void* destination, const void* source, size_t bytes,
                         Stores stores);

}  // namespace farpage
