#pragma once

#include <cstddef>
#include <cstdint>

namespace farpage {

// CRC-32C (Castagnoli, RFC 3720 B.4): crc32c(0, "123456789", 9) == 0xE3069283. To go on over the
// next bytes, pass what the last call returned.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);

enum class Stores : uint8_t {
  kKept,      // through the cache, for who reads the bytes next
  kStreamed,  // past the cache, for more than it holds; complete when the call returns
};

// Copies, and continues `crc` over exactly the bytes that it stored, even if others write to
// `source` meanwhile. The two must not overlap.
uint32_t copy_with_crc32c(uint32_t crc, void* destination, const void* source, size_t bytes,
                          Stores stores = Stores::kKept);

// The same without a check: memcpy where that is faster.
void copy_unchecked(void* destination, const void* source, size_t bytes, Stores stores);

}  // namespace farpage
