#include "report/watchdog.h"

#include <algorithm>
#include <ctime>

namespace farpage {
namespace {

// Between two looks at the clock a thread that runs needs less, and an interrupt about as much.
constexpr uint64_t kRunningNs = 5 * kMicrosecond;

uint64_t measure_delay() {
  const Clock& clock = boottime_clock();
  const uint64_t wake = clock.now_ns() + Watchdog::kNapNs;
  const timespec nap = {0, Watchdog::kNapNs};
  ::nanosleep(&nap, nullptr);
  uint64_t last = clock.now_ns();
  uint64_t delay = last > wake ? last - wake : 0;
  for (uint64_t worked = 0; worked < Watchdog::kWorkNs;) {
    const uint64_t now = clock.now_ns();
    (now - last <= kRunningNs ? worked : delay) += now - last;
    last = now;
  }
  return delay;
}

}  // namespace

Watchdog::Watchdog() : thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  stop();
}

void Watchdog::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Watchdog::run() {
  do {
    const uint64_t delay = measure_delay();
    delay_ns_.add(static_cast<double>(delay));
    most_ns_ = std::max(most_ns_, delay);
  } while (!stopping_);
}

}  // namespace farpage
