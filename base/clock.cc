#include "base/clock.h"

#include <ctime>

namespace farpage {
namespace {

template <clockid_t kClock>
class SystemClock final : public Clock {
 public:
  uint64_t now_ns() const override {
    timespec now;
    clock_gettime(kClock, &now);
    return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
  }
};

}  // namespace

// Never destroyed: threads and objects that end with the process may still look at them.
const Clock& boottime_clock() {
  static const Clock& clock = *new SystemClock<CLOCK_BOOTTIME>;
  return clock;
}

const Clock& realtime_clock() {
  static const Clock& clock = *new SystemClock<CLOCK_REALTIME>;
  return clock;
}

}  // namespace farpage
