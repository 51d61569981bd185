#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace farpage {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// "65536", "64KiB", "4GiB", "1.5MiB" → bytes. Refuses negative, fractional-byte and overflowing
// sizes.
Result<uint64_t> parse_bytes(std::string_view text);

// 65536 → "64 KiB".
std::string format_bytes(uint64_t bytes);

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace farpage
