#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/runtime.h"

namespace farpage {

// Calls `turn` once, at the earliest time that it was armed for since the last call: for an owner
// whose turn does all that is due, and arms the timer for what is not yet. Calls nobody once it is
// destroyed, which `turn` itself does not do. On the runtime's thread.
class TurnTimer {
 public:
  // `runtime` outlives it.
  TurnTimer(Runtime& runtime, std::function<void()> turn)
      : runtime_(runtime), turn_(std::move(turn)) {}

  // As soon as possible, if that time has passed. kNever: does nothing.
  void arm(uint64_t time_ns) {
    if (time_ns >= due_ns_) return;
    due_ns_ = time_ns;
    const uint64_t now = runtime_.clock().now_ns();
    // A callback knows by its time alone whether it was superseded: of several that are posted for
    // the time that is armed, the first takes the turn.
    runtime_.after(time_ns > now ? time_ns - now : 0,
                   [this, time_ns, alive = std::weak_ptr<bool>(alive_)] {
                     if (alive.expired() || due_ns_ != time_ns) return;
                     due_ns_ = kNever;
                     turn_();
                   });
  }
  void arm_now() { arm(runtime_.clock().now_ns()); }
  // As if it had not been armed: for an owner that takes its turn now.
  void disarm() { due_ns_ = kNever; }

 private:
  Runtime& runtime_;
  const std::function<void()> turn_;
  uint64_t due_ns_ = kNever;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
