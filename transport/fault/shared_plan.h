#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "transport/fault/fault_plan.h"

namespace farpage::fault {

// What a fabric and its channels have in common; they may outlive it. Thread-safe.
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

 private:
  mutable std::mutex mutex_;
  FaultPlan plan_;
};

}  // namespace farpage::fault
