#include "prefetch/milestones/ftrl.h"

#include <cmath>

#include "base/check.h"

namespace farpage::prefetch {

Ftrl::Ftrl(unsigned bits, const Rates& rates)
    : shift_(32 - bits),
      rates_(rates),
      by_alpha_(1 / rates.alpha),
      weights_(size_t{1} << bits),
      histories_(weights_.size()) {
  FARPAGE_CHECK(bits >= 1 && bits <= 31);
}

float Ftrl::probability(std::span<const uint32_t> features) const {
  float sum = 0;
  for (const uint32_t feature : features) sum += weights_[place(feature)];
  return 1 / (1 + std::exp(-sum));
}

void Ftrl::learn(std::span<const uint32_t> features, bool has_come) {
  const float gradient = probability(features) - (has_come ? 1.0F : 0.0F);
  for (const uint32_t feature : features) {
    float& weight = weights_[place(feature)];
    History& history = histories_[place(feature)];
    const float root = std::sqrt(history.root * history.root + gradient * gradient);
    const float sigma = (root - history.root) * by_alpha_;
    history.z += gradient - sigma * weight;
    history.root = root;
    const float over = std::abs(history.z) - rates_.l1;
    const float scale = (rates_.beta + root) * by_alpha_ + rates_.l2;
    weight = over <= 0 ? 0 : -std::copysign(over, history.z) / scale;
  }
}

}  // namespace farpage::prefetch
