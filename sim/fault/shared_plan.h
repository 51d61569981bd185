#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "sim/fault/fault_plan.h"
#include "transport/operation.h"

namespace farpage::fault {

// Is told of every operation whose bytes have moved, or never will, and what went wrong with it. On
// the thread of its channel, before the completion is to be seen.
using FaultWatcher = std::function<void(const Operation&, std::optional<FaultKind>)>;

// State that a fabric and its channels share; they may outlive the fabric. Thread-safe.
class SharedPlan {
 public:
  explicit SharedPlan(const Clock& of) : clock(of) {}

  void set(const FaultPlan& plan) {
    std::lock_guard lock(mutex_);
    plan_ = plan;
  }
  FaultPlan get() const {
    std::lock_guard lock(mutex_);
    return plan_;
  }

  // One fault of those that the plan still allows. give_back() if it could not be made after all.
  bool take_one() {
    std::lock_guard lock(mutex_);
    if (plan_.most == 0) return false;
    if (plan_.most != kNever) --plan_.most;
    return true;
  }
  void give_back() {
    std::lock_guard lock(mutex_);
    if (plan_.most != kNever) ++plan_.most;
  }

  const Clock& clock;
  FaultCounts injected;
  std::atomic<bool> peers_stopped{false};
  FaultWatcher watcher;  // set before there is a channel; null: no watcher

 private:
  mutable std::mutex mutex_;
  FaultPlan plan_;
};

}  // namespace farpage::fault
