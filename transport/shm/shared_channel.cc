#include "transport/shm/shared_channel.h"

#include <algorithm>
#include <ctime>

#include "base/clock.h"

namespace farpage::shm {
namespace {

constexpr uint64_t kIdleNapNs = 50'000;

}  // namespace

void nap_until(uint64_t deadline_ns) {
  const uint64_t now = boottime_clock().now_ns();
  if (now >= deadline_ns) return;
  const timespec nap = {0, static_cast<long>(std::min(deadline_ns - now, kIdleNapNs))};
  ::nanosleep(&nap, nullptr);
}

}  // namespace farpage::shm
