#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farpage::prefetch {

// Logistic regression over hashed features, learned as they come, by FTRL-Proximal (McMahan et al.,
// "Ad Click Prediction", KDD 2013, algorithm 1). All its memory is taken when it is made: twelve
// bytes a weight. What foretells, and is read most, lies apart. On one thread.
class Ftrl {
 public:
  struct Rates {
    float alpha = 0.1F;
    float beta = 1;
    float l1 = 0.1F;
    float l2 = 1;
  };

  // Of 2^bits weights.
  Ftrl(unsigned bits, const Rates& rates);

  // How likely it is, 0 to 1, where these features are there and no others. A feature is any
  // number; two may share a weight.
  float probability(std::span<const uint32_t> features) const;
  // It came to be, or it did not.
  void learn(std::span<const uint32_t> features, bool has_come);

 private:
  struct History {
    float z = 0;
    float root = 0;  // of the sum of the squared gradients
  };

  size_t place(uint32_t feature) const { return (feature * 0x9E3779B1U) >> shift_; }

  const unsigned shift_;
  const Rates rates_;
  const float by_alpha_;
  std::vector<float> weights_;
  std::vector<History> histories_;  // of each weight
};

}  // namespace farpage::prefetch
