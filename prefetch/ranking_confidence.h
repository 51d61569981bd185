#pragma once

namespace farpage::prefetch {

// Of what one of two rankings hit lately and the other missed: how much the first one hit, from 0
// to 1. A moving average over those, which begins as if they were alike. Below a threshold it is
// better not to trust the first: to keep, fetch or recompute by the other.
class RankingConfidence {
 public:
  void observe(bool first_hits, bool other_hits) {
    if (first_hits != other_hits) value_ += kWeight * ((first_hits ? 1.0 : 0.0) - value_);
  }
  double value() const { return value_; }

 private:
  static constexpr double kWeight = 1.0 / 64;

  double value_ = 0.5;
};

}  // namespace farpage::prefetch
