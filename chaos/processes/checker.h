#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sim/findings.h"
#include "sim/truth.h"

namespace farpage::processes {

// The knowledge that several clients share, each on its own thread. It is told of a put or remove
// before that is sent, and of an acknowledgement after it came: so what it holds to have happened
// one after the other did.
class Checker {
 public:
  template <typename Use>
  auto with_truth(Use&& use) {
    const std::lock_guard lock(mutex_);
    return std::forward<Use>(use)(truth_);
  }

  void add(FindingKind kind, std::string sentence) {
    const std::lock_guard lock(mutex_);
    const auto since_ns = static_cast<double>(boottime_clock().now_ns() - began_ns_);
    if (++count_ > kMost) return;
    findings_.add(kind, fmt::format("+{:.3f} s: {}", since_ns / kSecond, sentence));
  }

  bool found_nothing() const {
    const std::lock_guard lock(mutex_);
    return count_ == 0;
  }
  std::vector<Finding> findings() const {
    const std::lock_guard lock(mutex_);
    return findings_.all();
  }
  double seconds() const {
    return static_cast<double>(boottime_clock().now_ns() - began_ns_) / kSecond;
  }

 private:
  static constexpr size_t kMost = 1'000;

  const uint64_t began_ns_ = boottime_clock().now_ns();
  mutable std::mutex mutex_;
  Truth truth_;
  Findings findings_;
  size_t count_ = 0;
};

}  // namespace farpage::processes
