#include "bench/analyse/bootstrap.h"

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {
namespace {

constexpr size_t kDraws = 1'000;

double ratio(const Part& sum) {
  return sum.of > 0 ? sum.counted / sum.of : 0;
}

}  // namespace

Estimate estimate(std::span<const Part> parts, uint64_t seed) {
  Part all;
  for (const Part& part : parts) {
    all.counted += part.counted;
    all.of += part.of;
  }
  if (parts.empty()) return {};
  Random random(seed);
  std::vector<double> drawn(kDraws);
  for (double& each : drawn) {
    Part sum;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[random.below(parts.size())];
      sum.counted += part.counted;
      sum.of += part.of;
    }
    each = ratio(sum);
  }
  std::ranges::sort(drawn);
  return {ratio(all), drawn[kDraws / 40], drawn[kDraws - 1 - kDraws / 40]};
}

}  // namespace farpage::analyse
