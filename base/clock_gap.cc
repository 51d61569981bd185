#include "base/clock_gap.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage {
namespace {

constexpr uint64_t kForgivenFraction = 128;
constexpr uint64_t kLeastForgivenNs = 100 * kMillisecond;

}  // namespace

ClockGap ClockGap::of(const Runtime& runtime) {
  const uint64_t before = runtime.clock().now_ns();
  const uint64_t wall = runtime.wall_clock().now_ns();
  const uint64_t after = runtime.clock().now_ns();
  ClockGap gap;
  gap.least_ns_ = static_cast<int64_t>(wall - after);
  gap.most_ns_ = static_cast<int64_t>(wall - before);
  return gap;
}

uint64_t ClockGap::grown_since(const ClockGap& then) const {
  return static_cast<uint64_t>(std::max<int64_t>(0, least_ns_ - then.most_ns_));
}

uint64_t ClockGap::held_ns(const Runtime& runtime, const ClockGap& then, uint64_t lease_ns) {
  const uint64_t grown = of(runtime).grown_since(then);
  return grown > std::max(lease_ns / kForgivenFraction, kLeastForgivenNs) ? grown : 0;
}

std::string held_warning(uint64_t held_ns) {
  return fmt::format(
      "this machine was held for {} ms, or its wall clock was set ahead by as much: earlier leases "
      "end now (docs/operations.md, Clocks)",
      held_ns / kMillisecond);
}

}  // namespace farpage
