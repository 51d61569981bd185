#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/units.h"

namespace farpage {

// How many bytes a lane keeps under way at one peer: enough to keep the wire busy, and few enough
// that a page whose deadline is near waits behind them for about kQueueNs and no longer.
//
// The rule is that of FAST TCP (Wei, Jin, Low, Hegde, 2006): where a read alone takes `base` and
// takes `took` now, the bytes that fill the wire and a queue of kQueueNs are
// window * (base + kQueueNs) / took. The window goes half of the way there, once a round. One
// thread.
class TransferWindow {
 public:
  static constexpr uint64_t kQueueNs = 500 * kMicrosecond;
  static constexpr uint64_t kLeastBytes = kMiB;
  static constexpr uint64_t kMostBytes = 32 * kMiB;

  uint64_t bytes() const { return bytes_; }

  // Pages had to wait for room: the window binds, and may grow.
  void was_full() { was_full_ = true; }

  // A read of a payload has ended well.
  void ended(uint64_t took_ns) {
    sum_ns_ += took_ns;
    least_ns_ = std::min(least_ns_, took_ns);
    if (++reads_ == kRound) end_round();
  }

 private:
  static constexpr uint32_t kRound = 32;  // reads
  static constexpr uint32_t kMemory =
      1024;  // rounds, after which a base that was not seen again is old
  static constexpr double kMostGrowth = 4;

  void end_round() {
    const uint64_t took_ns = std::max<uint64_t>(sum_ns_ / reads_, 1);
    recent_base_ns_ = std::min(recent_base_ns_, least_ns_);
    base_ns_ = std::min(base_ns_, least_ns_);
    if (++rounds_ == kMemory) {
      base_ns_ = recent_base_ns_;
      recent_base_ns_ = kNever;
      rounds_ = 0;
    }
    const double share = static_cast<double>(base_ns_ + kQueueNs) / static_cast<double>(took_ns);
    if (was_full_ || share < 1) {
      const double next = static_cast<double>(bytes_) * std::min(1 + share, kMostGrowth) / 2;
      bytes_ = std::clamp(static_cast<uint64_t>(next), kLeastBytes, kMostBytes);
    }
    sum_ns_ = reads_ = 0;
    least_ns_ = kNever;
    was_full_ = false;
  }

  uint64_t bytes_ = 4 * kMiB;
  uint64_t base_ns_ = kNever;         // what a read alone takes, as far as is known
  uint64_t recent_base_ns_ = kNever;  // the same, of the last rounds alone
  uint64_t sum_ns_ = 0;
  uint64_t least_ns_ = kNever;
  uint32_t reads_ = 0;  // of this round
  uint32_t rounds_ = 0;
  bool was_full_ = false;
};

}  // namespace farpage
