#include "bench/analyse/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {
namespace {

TEST(Bootstrap, PartsThatAreAlikeLeaveNoDoubt) {
  const Estimate estimate = analyse::estimate(std::vector<Part>(10, {3, 4}), 1);
  EXPECT_DOUBLE_EQ(estimate.value, 0.75);
  EXPECT_DOUBLE_EQ(estimate.low, 0.75);
  EXPECT_DOUBLE_EQ(estimate.high, 0.75);
}
TEST(Bootstrap, IsAsWideAsTheStandardErrorSays) {
  // 400 parts, a tenth of which have it: the standard error is √(0.1 · 0.9 / 400) = 0.015.
  std::vector<Part> parts(400, {0, 1});
  for (size_t i = 0; i < 40; ++i) parts[i].counted = 1;
  const Estimate estimate = analyse::estimate(parts, 1);
  EXPECT_DOUBLE_EQ(estimate.value, 0.1);
  EXPECT_NEAR(estimate.low, 0.1 - 1.96 * 0.015, 0.005);
  EXPECT_NEAR(estimate.high, 0.1 + 1.96 * 0.015, 0.005);
}
TEST(Bootstrap, LargePartsCountForMore) {
  EXPECT_DOUBLE_EQ(estimate(std::vector<Part>{{1, 1}, {0, 9}}, 1).value, 0.1);
}
TEST(Bootstrap, IsTheSameForASeedAndNothingOfNothing) {
  std::vector<Part> parts;
  for (int i = 0; i < 20; ++i) parts.push_back({static_cast<double>(i), 20});
  EXPECT_EQ(estimate(parts, 7).low, estimate(parts, 7).low);
  EXPECT_NE(estimate(parts, 7).low, estimate(parts, 8).low);
  EXPECT_EQ(estimate({}, 1).value, 0);
  EXPECT_EQ(estimate(std::vector<Part>(3), 1).high, 0);
}

}  // namespace
}  // namespace farpage::analyse
