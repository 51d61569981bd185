#pragma once

#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace farpage {

// Processor time of this thread: that of other programs does not count.
inline uint64_t thread_cpu_ns() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * kSecond + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace farpage
