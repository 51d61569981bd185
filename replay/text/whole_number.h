#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace farpage {

// Beyond it a number with a fraction or an exponent no longer tells one whole number from the next.
inline constexpr double kMostExactDouble = 9007199254740992;  // 2^53

// The number itself where it is whole: 1536.0 is, and 1.5 is not.
std::optional<int64_t> whole_of(double number);

// The whole number, not negative, at the front of a text, which is taken off: 7, 7.0 or 7e0.
std::optional<uint64_t> take_whole_number(std::string_view& text);

}  // namespace farpage
