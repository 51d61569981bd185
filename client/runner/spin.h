#pragma once

#include <sched.h>

#include <cstdint>

#include "base/clock.h"

namespace farpage {

// Looks whether `ready()` for so long, and returns whether it is. Others who want the processor
// have it meanwhile.
template <typename Ready>
bool spin_until(uint64_t spin_ns, const Ready& ready) {
  if (ready()) return true;
  if (spin_ns == 0) return false;
  const uint64_t until_ns = boottime_clock().now_ns() + spin_ns;
  do {
    ::sched_yield();
    if (ready()) return true;
  } while (boottime_clock().now_ns() < until_ns);
  return false;
}

}  // namespace farpage
