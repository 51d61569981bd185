#pragma once

#include <cmath>
#include <cstdint>

namespace farpage::prefetch {

// How long something takes: a moving average, and how far from it one usually is. On one thread.
class UsualTime {
 public:
  void learn(uint64_t took_ns) {
    const auto took = static_cast<double>(took_ns);
    if (!is_known_) mean_ns_ = took;
    is_known_ = true;
    deviation_ns_ += kWeight * (std::abs(took - mean_ns_) - deviation_ns_);
    mean_ns_ += kWeight * (took - mean_ns_);
  }
  // More than a twentieth over what is usual, and over what it varies by itself.
  bool is_exceeded_by(uint64_t took_ns) const {
    return is_known_ && static_cast<double>(took_ns) > kTolerated * mean_ns_ + 2 * deviation_ns_;
  }
  double mean_ns() const { return mean_ns_; }  // 0: unknown

 private:
  static constexpr double kWeight = 1.0 / 8;
  static constexpr double kTolerated = 1.05;

  bool is_known_ = false;
  double mean_ns_ = 0;
  double deviation_ns_ = 0;
};

}  // namespace farpage::prefetch
