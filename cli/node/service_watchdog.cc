#include "cli/node/service_watchdog.h"

#include <systemd/sd-daemon.h>

#include <atomic>
#include <cstring>
#include <string>

#include "base/log.h"

namespace farpage {

struct ServiceWatchdog::State {
  State(Runtime& tells, uint64_t every_ns) : runtime(tells), interval_ns(every_ns) {}

  Runtime& runtime;
  const uint64_t interval_ns;
  std::atomic<bool> has_ended{false};
};

uint64_t watchdog_ns() {
  uint64_t interval_us = 0;
  const int wanted = ::sd_watchdog_enabled(0, &interval_us);
  if (wanted < 0) {
    log_warning(
        std::string(
            "cannot use WATCHDOG_USEC or WATCHDOG_PID, so no watchdog hears from this node: ") +
        std::strerror(-wanted));
  }
  return wanted > 0 ? interval_us * 1'000 : 0;
}

std::unique_ptr<ServiceWatchdog> ServiceWatchdog::start(Runtime& runtime) {
  const uint64_t within_ns = watchdog_ns();
  return within_ns == 0 ? nullptr : std::make_unique<ServiceWatchdog>(runtime, within_ns / 2);
}

ServiceWatchdog::ServiceWatchdog(Runtime& runtime, uint64_t interval_ns)
    : state_(std::make_shared<State>(runtime, interval_ns)) {
  runtime.after(0, [state = state_] { tell(state); });
}

// Notifications that have begun end before the runtime does.
ServiceWatchdog::~ServiceWatchdog() {
  state_->has_ended.store(true);
}

void ServiceWatchdog::tell(const std::shared_ptr<State>& state) {
  if (state->has_ended.load()) return;
  (void)::sd_notify(0, "WATCHDOG=1");
  state->runtime.after(state->interval_ns, [state] { tell(state); });
}

}  // namespace farpage
