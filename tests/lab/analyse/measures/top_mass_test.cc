#include "lab/analyse/measures/top_mass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {
namespace {

TEST(TopMass, IsTheFifthThatHasTheMost) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TopMass top(0.2);
    std::vector<double> masses(60);
    std::vector<bool> is_named(masses.size());
    for (int i = 0; i < 300; ++i) {
      const auto page = static_cast<prefetch::PageNumber>(random.below(masses.size()));
      const auto mass = static_cast<float>(random.below(1'000)) / 1'000;
      masses[page] += static_cast<double>(mass);
      is_named[page] = true;
      top.add(page, mass);
      const auto named = std::ranges::count(is_named, true);
      ASSERT_EQ(top.top_pages(),
                static_cast<uint64_t>(std::ceil(0.2 * static_cast<double>(named))));
      double least_of_top = INFINITY;
      double most_of_rest = 0;
      uint64_t tops = 0;
      for (prefetch::PageNumber each = 0; each < masses.size(); ++each) {
        if (top.is_top(each)) {
          ++tops;
          least_of_top = std::min(least_of_top, masses[each]);
        } else {
          most_of_rest = std::max(most_of_rest, masses[each]);
        }
      }
      ASSERT_EQ(tops, top.top_pages());
      ASSERT_GE(least_of_top, most_of_rest);
    }
  }
}

}  // namespace
}  // namespace farpage::analyse
