#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace farpage::prefetch {

// How good probabilities were that were told before it was known what came: each is judged by the
// model as it was then, and none is asked twice. On one thread.
class PrequentialScore {
 public:
  void add(float foretold, bool has_come);

  uint64_t samples() const { return samples_; }
  double base_rate() const;  // the share of them that came: the area of a guess
  // The area under precision against recall, in 200 steps of the probability (average precision).
  double pr_auc() const;
  // By how much probabilities were off, on average: between what was foretold and what came, of
  // those that were foretold alike.
  double calibration_error() const;

 private:
  static constexpr size_t kBins = 200;
  struct Bin {
    uint64_t samples = 0;
    uint64_t came = 0;
    double foretold = 0;  // the sum
  };

  std::array<Bin, kBins> bins_ = {};
  uint64_t samples_ = 0;
  uint64_t came_ = 0;
};

}  // namespace farpage::prefetch
