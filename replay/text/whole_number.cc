#include "replay/text/whole_number.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace farpage {

std::optional<int64_t> whole_of(double number) {
  if (!(std::abs(number) <= kMostExactDouble) || number != std::trunc(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<uint64_t> take_whole_number(std::string_view& text) {
  const char* const end = text.data() + text.size();
  const auto take_until = [&](const char* after) {
    text.remove_prefix(static_cast<size_t>(after - text.data()));
  };
  uint64_t whole = 0;
  const auto [after, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc()) return std::nullopt;
  if (after == end || (*after != '.' && *after != 'e' && *after != 'E')) {
    take_until(after);
    return whole;
  }
  double number = 0;
  const auto [after_all, no_double] = std::from_chars(text.data(), end, number);
  if (no_double != std::errc()) return std::nullopt;
  const auto exact = whole_of(number);
  if (!exact) return std::nullopt;
  take_until(after_all);
  return static_cast<uint64_t>(*exact);
}

}  // namespace farpage
