#include "prefetch/milestones/ftrl.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace farpage::prefetch {

Ftrl::Ftrl(unsigned bits, const Rates& rates)
    : shift_(32 - bits),
      rates_(rates),
      by_alpha_(1 / rates.alpha),
      weights_(size_t{1} << bits),
      histories_(weights_.size()) {
  FARPAGE_CHECK(bits >= 1 && bits <= 16);
}

float Ftrl::probability(std::span<const uint16_t> places) const {
  float sum = 0;
  for (const uint16_t place : places) sum += weights_[place];
  return 1 / (1 + std::exp(-sum));
}

// Without a branch on what it finds, which is unpredictable.
void Ftrl::learn(std::span<const uint16_t> places, bool has_come) {
  const float gradient = probability(places) - (has_come ? 1.0F : 0.0F);
  const Rates rates = rates_;
  for (const uint16_t place : places) {
    const float w = weights_[place];
    const History before = histories_[place];
    const float root = std::sqrt(before.root * before.root + gradient * gradient);
    const float sigma = (root - before.root) * by_alpha_;
    const float z = before.z + (gradient - sigma * w);
    const float over = std::max(std::abs(z) - rates.l1, 0.0F);
    const float scale = (rates.beta + root) * by_alpha_ + rates.l2;
    histories_[place] = {z, root};
    weights_[place] = -std::copysign(over, z) / scale;
  }
}

}  // namespace farpage::prefetch
