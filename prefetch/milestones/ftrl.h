#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farpage::prefetch {

// Logistic regression over hashed features, learned as they come, by FTRL-Proximal (McMahan et al.,
// "Ad Click Prediction", KDD 2013, algorithm 1). All its memory is taken when it is made: twelve
// bytes a weight. The weights that predict, and are read most, lie apart. On one thread.
class Ftrl {
 public:
  struct Rates {
    float alpha = 0.1F;
    float beta = 1;
    float l1 = 0.1F;
    float l2 = 1;
  };

  // Of 2^bits weights, 65,536 at most.
  Ftrl(unsigned bits, const Rates& rates);
  static constexpr uint64_t bytes_of(unsigned bits) {
    return (sizeof(float) + sizeof(History)) << bits;
  }

  // Where the weights are of features, which are any numbers; two may share one.
  template <size_t kFeatures>
  std::array<uint16_t, kFeatures> places(const std::array<uint32_t, kFeatures>& features) const {
    std::array<uint16_t, kFeatures> places;
    std::ranges::transform(features, places.begin(), [&](uint32_t feature) {
      return static_cast<uint16_t>((feature * 0x9E3779B1U) >> shift_);
    });
    return places;
  }
  // How likely it is, 0 to 1, where these features are there and no others.
  float probability(std::span<const uint16_t> places) const;
  // It came to be, or it did not.
  void learn(std::span<const uint16_t> places, bool has_come);

 private:
  struct History {
    float z = 0;
    float root = 0;  // of the sum of the squared gradients
  };

  const unsigned shift_;
  const Rates rates_;
  const float by_alpha_;
  std::vector<float> weights_;
  std::vector<History> histories_;  // of each weight
};

}  // namespace farpage::prefetch
