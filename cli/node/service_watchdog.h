#pragma once

#include <cstdint>
#include <memory>

#include "base/runtime.h"

namespace farpage {

// How often a service manager wants to hear of this process (systemd's WatchdogSec=, told by
// WATCHDOG_USEC and WATCHDOG_PID); 0: not at all.
uint64_t watchdog_ns();

// Tells it so twice as often (sd_notify's WATCHDOG=1), by callbacks of the runtime that serves:
// once that hangs no message reaches it any more, and it starts this process again. The runtime
// outlives it.
class ServiceWatchdog {
 public:
  // Nothing, where no service manager wants to hear of it.
  static std::unique_ptr<ServiceWatchdog> start(Runtime& runtime);

  ServiceWatchdog(Runtime& runtime, uint64_t interval_ns);
  ServiceWatchdog(const ServiceWatchdog&) = delete;
  ServiceWatchdog& operator=(const ServiceWatchdog&) = delete;
  ~ServiceWatchdog();

 private:
  struct State;
  static void tell(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace farpage
