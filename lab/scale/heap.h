#pragma once

#include <malloc.h>

#include <cstdint>

namespace farpage {

// Bytes allocated now, by all threads; 0 where something else than glibc's allocator is used.
inline uint64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace farpage
