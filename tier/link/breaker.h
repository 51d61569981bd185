#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace farpage {

// Passes a peer over that keeps failing, and lets one attempt through now and then to see whether
// it is back.
//
//   closed ──kMost failures in a row──► open ──pause──► half-open: one attempt ──good──► closed
//                                         ▲                      │
//                                         └── failed, a longer pause
//
// Thread-safe and wait-free: what two lanes say at one time may be counted once.
class Breaker {
 public:
  static constexpr uint32_t kMost = 3;

  bool open() const { return failures_.load(std::memory_order_relaxed) >= kMost; }
  bool allows(uint64_t now_ns) const {
    return !open() || now_ns >= probe_ns_.load(std::memory_order_relaxed);
  }
  // An attempt begins: while it is open, the only one until the pause has passed again.
  void asked(uint64_t now_ns) {
    if (open()) probe_ns_.store(now_ns + pause(), std::memory_order_relaxed);
  }
  void succeeded() {
    if (failures_.load(std::memory_order_relaxed) != 0) {
      failures_.store(0, std::memory_order_relaxed);
    }
  }
  void failed(uint64_t now_ns) {
    const uint32_t failures = failures_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (failures == kMost) opened_.fetch_add(1, std::memory_order_relaxed);
    if (failures >= kMost) probe_ns_.store(now_ns + pause(), std::memory_order_relaxed);
  }

  uint64_t times_opened() const { return opened_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kFirstPauseNs = 10 * kMillisecond;
  static constexpr uint32_t kMostDoublings = 7;

  uint64_t pause() const {
    const uint32_t failures = failures_.load(std::memory_order_relaxed);
    return kFirstPauseNs << std::min(failures - std::min(failures, kMost), kMostDoublings);
  }

  std::atomic<uint32_t> failures_{0};  // in a row
  std::atomic<uint64_t> probe_ns_{0};
  std::atomic<uint64_t> opened_{0};
};

}  // namespace farpage
