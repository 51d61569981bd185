#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace farpage {
namespace {

constexpr std::array<std::pair<std::string_view, uint64_t>, 5> kSuffixes = {{
    {"TiB", 1024 * kGiB},
    {"GiB", kGiB},
    {"MiB", kMiB},
    {"KiB", kKiB},
    {"B", 1},
}};

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  std::string_view number = text;
  uint64_t unit = 1;
  for (const auto& [suffix, factor] : kSuffixes) {
    if (number.ends_with(suffix)) {
      number.remove_suffix(suffix.size());
      unit = factor;
      break;
    }
  }
  while (number.ends_with(' ')) number.remove_suffix(1);
  const char* end = number.data() + number.size();

  uint64_t whole = 0;
  if (auto [stop, error] = std::from_chars(number.data(), end, whole);
      error == std::errc() && stop == end && whole <= UINT64_MAX / unit) {
    return whole * unit;
  }
  double value = 0;
  auto [stop, error] = std::from_chars(number.data(), end, value, std::chars_format::fixed);
  double bytes = value * static_cast<double>(unit);
  if (error != std::errc() || stop != end || !(bytes >= 0) || bytes >= 0x1p63 ||
      bytes != std::floor(bytes)) {
    return fail(Code::kInvalid,
                fmt::format("'{}' is no size: write a whole number of bytes, or one "
                            "with KiB, MiB, GiB or TiB, such as 64KiB",
                            text));
  }
  return static_cast<uint64_t>(bytes);
}

std::string format_bytes(uint64_t bytes) {
  for (const auto& [suffix, unit] : kSuffixes) {
    if (bytes < unit || unit == 1) continue;
    if (bytes % unit == 0) return fmt::format("{} {}", bytes / unit, suffix);
    return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(unit), suffix);
  }
  return fmt::format("{} B", bytes);
}

}  // namespace farpage
