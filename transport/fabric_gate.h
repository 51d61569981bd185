#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "transport/fabric.h"

namespace farpage {

// A fabric for offloaded work, which may still be under way when the fabric's user goes.
// Thread-safe.
class FabricGate {
 public:
  explicit FabricGate(Fabric& fabric) : fabric_(&fabric) {}

  // Runs work(Fabric&), which gives a Result, unless the gate is closed.
  template <typename Work>
  auto pass(const Work& work) -> decltype(work(std::declval<Fabric&>())) {
    std::shared_lock lock(mutex_);
    if (fabric_ == nullptr) return fail(Code::kAborted, "the client was closed meanwhile");
    return work(*fabric_);
  }

  // Waits for the work that is inside.
  void close() {
    closed_.store(true, std::memory_order_release);
    std::unique_lock lock(mutex_);
    fabric_ = nullptr;
  }
  // The fabric's user goes, or has gone. Waits for nothing.
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> closed_{false};
  std::shared_mutex mutex_;
  Fabric* fabric_;
};

}  // namespace farpage
