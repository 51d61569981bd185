#include "lab/analyse/measures/bootstrap.h"

namespace farpage::analyse {

Estimate estimate_share(std::span<const Share> parts, uint64_t seed) {
  return estimate(parts, seed, [](const Share& sums) { return ratio(sums[0], sums[1]); });
}

}  // namespace farpage::analyse
