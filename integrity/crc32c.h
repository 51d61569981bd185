#pragma once

#include <cstddef>
#include <cstdint>

namespace farpage {

// CRC-32C (Castagnoli, RFC 3720 B.4): crc32c(0, "123456789", 9) == 0xE3069283. To go on over the
// next bytes, pass what the last call returned.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);

// memcpy, and `crc` continued over what then lies at `destination`, in chunks that are still in the
// first-level cache when they are checked.
uint32_t copy_with_crc32c(uint32_t crc, void* destination, const void* source, size_t bytes);

}  // namespace farpage
