#include "lab/analyse/measures/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {
namespace {

TEST(Bootstrap, PartsThatAreAlikeLeaveNoDoubt) {
  const Estimate estimate = estimate_share(std::vector<Share>(10, {3, 4}), 1);
  EXPECT_DOUBLE_EQ(estimate.value, 0.75);
  EXPECT_DOUBLE_EQ(estimate.low, 0.75);
  EXPECT_DOUBLE_EQ(estimate.high, 0.75);
}
TEST(Bootstrap, IsAsWideAsTheStandardErrorSays) {
  // 400 parts, a tenth of which have it: the standard error is √(0.1 · 0.9 / 400) = 0.015.
  std::vector<Share> parts(400, {0, 1});
  for (size_t i = 0; i < 40; ++i) parts[i][0] = 1;
  const Estimate estimate = estimate_share(parts, 1);
  EXPECT_DOUBLE_EQ(estimate.value, 0.1);
  EXPECT_NEAR(estimate.low, 0.1 - 1.96 * 0.015, 0.005);
  EXPECT_NEAR(estimate.high, 0.1 + 1.96 * 0.015, 0.005);
}
TEST(Bootstrap, LargePartsCountForMore) {
  EXPECT_DOUBLE_EQ(estimate_share(std::vector<Share>{{1, 1}, {0, 9}}, 1).value, 0.1);
}
TEST(Bootstrap, IsTheSameForASeedAndNothingOfNothing) {
  std::vector<Share> parts;
  for (int i = 0; i < 20; ++i) parts.push_back({static_cast<double>(i), 20});
  EXPECT_EQ(estimate_share(parts, 7).low, estimate_share(parts, 7).low);
  EXPECT_NE(estimate_share(parts, 7).low, estimate_share(parts, 8).low);
  EXPECT_EQ(estimate_share({}, 1).value, 0);
  EXPECT_EQ(estimate_share(std::vector<Share>(3), 1).high, 0);
}

TEST(Bootstrap, ResamplesAStatisticOfSums) {
  // The first is twice the second in each part, however they are drawn.
  std::vector<Sums<3>> parts;
  for (int i = 1; i < 20; ++i) parts.push_back({2.0 * i, 1.0 * i, 1});
  const auto of = [&](auto statistic) {
    return estimate(std::span<const Sums<3>>(parts), 1, statistic);
  };
  const Estimate times = of([](const Sums<3>& sums) { return sums[0] / sums[1]; });
  EXPECT_DOUBLE_EQ(times.low, 2);
  EXPECT_DOUBLE_EQ(times.high, 2);
  const Estimate mean = of([](const Sums<3>& sums) { return sums[1] / sums[2]; });
  EXPECT_DOUBLE_EQ(mean.value, 10);
  EXPECT_LT(mean.low, 8.5);
  EXPECT_GT(mean.high, 11.5);
}

}  // namespace
}  // namespace farpage::analyse
