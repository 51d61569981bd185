#pragma once

#include <cstdint>
#include <string>

#include "base/runtime.h"

namespace farpage {

// How far a machine's wall clock is ahead of the clock that its leases count on. The kernel speeds
// up and slows down both together, so this changes only when the wall clock is set: by hand, by a
// time service, or after a hypervisor has held the machine. Meanwhile CLOCK_BOOTTIME stood still,
// and what was leased before has lasted longer than this machine knows.
class ClockGap {
 public:
  ClockGap() = default;
  static ClockGap of(const Runtime& runtime);

  // By how much it has grown since then, at the least: a thread may stand still between the looks
  // at the two clocks. 0 where it has shrunk.
  uint64_t grown_since(const ClockGap& then) const;

  // The time that this machine was held since `then`, as far as its clocks tell, if that is more
  // than a lease of so long forgives; otherwise 0. It forgives half of the drift ε that nodes wait
  // for beyond a lease, and never less than 100 ms, so that a time service may set the clock.
  static uint64_t held_ns(const Runtime& runtime, const ClockGap& then, uint64_t lease_ns);

 private:
  int64_t least_ns_ = 0;
  int64_t most_ns_ = 0;
};

// For the log, of a machine that was held for so long.
std::string held_warning(uint64_t held_ns);

}  // namespace farpage
