#include "lab/live/link_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace farpage::live {
namespace {

struct Unit {
  std::string_view name;
  double of_base;
};

constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};  // in nanoseconds
constexpr Unit kRates[] = {{"KB/s", 1e3},     {"MB/s", 1e6},     {"GB/s", 1e9},
                           {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}, {"B/s", 1}};  // in bytes a second

std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (name == unit.name) return value * unit.of_base;
  }
  return std::nullopt;
}

}  // namespace

Result<vtime::TierOptions> parse_link(std::string_view text) {
  const size_t comma = std::min(text.find(','), text.size());
  const auto latency_ns = parse(text.substr(0, comma), kTimes);
  const auto bytes_per_s = parse(text.substr(std::min(comma + 1, text.size())), kRates);
  constexpr double kMostNs = 60e9;
  const bool is_good = latency_ns && *latency_ns >= 0 && *latency_ns <= kMostNs && bytes_per_s &&
                       *bytes_per_s >= 1e3 && *bytes_per_s <= 1e15;
  if (!is_good) {
    return fail(
        Code::kInvalid,
        fmt::format("the link '{}': give its latency (ns, us, ms, s; a minute at most) and "
                    "its rate (from 1KB/s; KB/s, MB/s, GB/s, Mb/s, Gb/s), as in 25us,10GB/s",
                    text));
  }
  vtime::TierOptions tier;
  tier.latency_ns = static_cast<uint64_t>(std::llround(*latency_ns));
  tier.bytes_per_s = static_cast<uint64_t>(std::llround(*bytes_per_s));
  return tier;
}

}  // namespace farpage::live
