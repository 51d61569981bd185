#include "base/clock.h"

#include <ctime>

namespace farpage {
namespace {

class BoottimeClock final : public Clock {
 public:
  uint64_t now_ns() const override {
    timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
  }
};

}  // namespace

const Clock& boottime_clock() {
  // Never destroyed: threads and objects that end with the process may still look at it.
  static const Clock& clock = *new BoottimeClock;
  return clock;
}

}  // namespace farpage
