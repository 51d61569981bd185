#pragma once

#include <cstdint>

#include "base/clock.h"

namespace farpage {

// The time in so many microseconds from now; kNever where the clock does not count so far.
inline uint64_t deadline_after(const Clock& clock, uint64_t timeout_us) {
  const uint64_t now = clock.now_ns();
  return timeout_us < (kNever - now) / kMicrosecond ? now + timeout_us * kMicrosecond : kNever;
}

}  // namespace farpage
