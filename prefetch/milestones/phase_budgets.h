#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "prefetch/parameters.h"

namespace farpage::prefetch {

// Which share of what may be fetched ahead a prefetcher asks for, by what the model is at: in some
// phases it comes back to what it wrote more often than in others. All while no phase was told.
class PhaseBudgets {
 public:
  // As these describe them.
  explicit PhaseBudgets(Values shares) { std::ranges::copy(shares, shares_.begin()); }

  static std::array<Parameter, 3> parameters() {
    return {Parameter{"explore", "the share of what may be asked for while it explores", 1, 0, 1},
            Parameter{"verify", "the same while it verifies", 1, 0, 1},
            Parameter{"conclude", "and while it concludes", 1, 0, 1}};
  }

  // Of so many pages.
  size_t most(Mark phase, size_t pages) const {
    if (phase < Mark::kExplores) return pages;
    const double share = shares_[static_cast<size_t>(phase) - static_cast<size_t>(Mark::kExplores)];
    return static_cast<size_t>(std::ceil(share * static_cast<double>(pages)));
  }

 private:
  std::array<double, 3> shares_ = {};
};

}  // namespace farpage::prefetch
