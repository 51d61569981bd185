#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {

struct Estimate {
  double value = 0;  // of all parts
  double low = 0;    // the middle 95% of what resampled parts give
  double high = 0;
};

// Sums over a part of the data, such as a sequence.
template <size_t kCount>
using Sums = std::array<double, kCount>;

// Of a statistic of sums, by drawing as many parts as there are, with replacement, a thousand
// times; the same for a seed (Efron's percentile interval). Of no parts, 0.
template <size_t kCount, typename Statistic>
Estimate estimate(std::span<const Sums<kCount>> parts, uint64_t seed, Statistic statistic) {
  constexpr size_t kDraws = 1'000;
  if (parts.empty()) return {};
  const auto add = [](Sums<kCount>& sums, const Sums<kCount>& part) {
    for (size_t i = 0; i < kCount; ++i) sums[i] += part[i];
  };
  Sums<kCount> all = {};
  for (const Sums<kCount>& part : parts) add(all, part);
  Random random(seed);
  std::vector<double> drawn(kDraws);
  for (double& each : drawn) {
    Sums<kCount> sums = {};
    for (size_t i = 0; i < parts.size(); ++i) add(sums, parts[random.below(parts.size())]);
    each = statistic(sums);
  }
  std::ranges::sort(drawn);
  return {statistic(all), drawn[kDraws / 40], drawn[kDraws - 1 - kDraws / 40]};
}

inline double ratio(double counted, double of) {
  return of > 0 ? counted / of : 0;
}

// So many of so many.
using Share = Sums<2>;
Estimate estimate_share(std::span<const Share> parts, uint64_t seed);

}  // namespace farpage::analyse
