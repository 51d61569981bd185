#include "prefetch/milestones/ftrl.h"

#include <cmath>

#include "base/check.h"

namespace farpage::prefetch {

Ftrl::Ftrl(unsigned bits, const Rates& rates)
    : shift_(32 - bits), rates_(rates), weights_(size_t{1} << bits) {
  FARPAGE_CHECK(bits >= 1 && bits <= 31);
}

float Ftrl::probability(std::span<const uint32_t> features) const {
  float sum = 0;
  for (const uint32_t feature : features) sum += weights_[place(feature)].w;
  return 1 / (1 + std::exp(-sum));
}

void Ftrl::learn(std::span<const uint32_t> features, bool has_come) {
  const float gradient = probability(features) - (has_come ? 1.0F : 0.0F);
  for (const uint32_t feature : features) {
    Weight& weight = weights_[place(feature)];
    const float root = std::sqrt(weight.root * weight.root + gradient * gradient);
    const float sigma = (root - weight.root) / rates_.alpha;
    weight.z += gradient - sigma * weight.w;
    weight.root = root;
    const float over = std::abs(weight.z) - rates_.l1;
    const float scale = (rates_.beta + root) / rates_.alpha + rates_.l2;
    weight.w = over <= 0 ? 0 : -std::copysign(over, weight.z) / scale;
  }
}

}  // namespace farpage::prefetch
