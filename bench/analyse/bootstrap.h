#pragma once

#include <cstdint>
#include <span>

namespace farpage::analyse {

// A part of what was looked at, such as a sequence: so many of so many.
struct Part {
  double counted = 0;
  double of = 0;
};

struct Estimate {
  double value = 0;  // all counted, of all
  double low = 0;    // the middle 95% of what resampled parts give
  double high = 0;
};

// By drawing as many parts as there are, with replacement, a thousand times; the same for a seed.
// Of parts that have nothing to count, 0.
Estimate estimate(std::span<const Part> parts, uint64_t seed);

}  // namespace farpage::analyse
