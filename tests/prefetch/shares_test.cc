#include "prefetch/allocations/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

namespace farpage::prefetch {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

using Weights = std::vector<double>;

TEST(Shares, DemandsAreSmoothedByTheirRootsAndClippedAtTwiceTheMean) {
  // Roots 1, 2, 3, 4 of the mean 2.5; then 10, 1, 1, 1, 1, whose mean is 2.8.
  EXPECT_THAT(smoothed(Weights{1, 4, 9, 16}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(smoothed(Weights{100, 1, 1, 1, 1}), ElementsAre(DoubleNear(5.6, 1e-9), 1, 1, 1, 1));
}
TEST(Shares, WhoDemandsNothingCountsForAQuarterOfTheMean) {
  EXPECT_THAT(smoothed(Weights{16, 0}), ElementsAre(4, 0.5));
  EXPECT_THAT(smoothed(Weights{0, 0, 0}), ElementsAre(1, 1, 1));
}
TEST(Shares, AreWholePagesByLargestRemainders) {
  // 0.71, 1.43, 2.14, 5.71 of 10.
  EXPECT_THAT(divide(14, Weights{1, 2, 3, 8}), ElementsAre(1, 2, 3, 8));
  EXPECT_THAT(divide(10, Weights{1, 2, 3, 8}), ElementsAre(1, 1, 2, 6));
}
TEST(Shares, OfEqualRemaindersTheFirstHasThePage) {
  EXPECT_THAT(divide(11, Weights{1, 1, 1}), ElementsAre(4, 4, 3));
  EXPECT_THAT(divide(1, Weights{1, 1, 1}), ElementsAre(1, 0, 0));
}
TEST(Shares, WhatSomeHaveAtLeastTheOthersShare) {
  EXPECT_THAT(divide(16, Weights{1, 14, 1}, 2), ElementsAre(2, 12, 2));
  // 1.6 for the first, so that the others have 14.4 : 2 and not 15.
  EXPECT_THAT(divide(16, Weights{1, 5, 10}, 1.6), ElementsAre(2, 5, 9));
  EXPECT_THAT(divide(16, Weights{1, 1, 14, 0.1}, 4), Each(4));
}

RC_GTEST_PROP(SharesProperty, AddUpAndFollowTheWeights, ()) {
  const auto pages = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 32);
  const auto drawn = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(1, 1'000'000)));
  const double floor = *rc::gen::inRange(0, 5) / 4.0;
  const Weights weights(drawn.begin(), drawn.end());
  const double least = floor * static_cast<double>(pages) / static_cast<double>(weights.size());
  const auto shares = divide(pages, weights, least);
  RC_ASSERT(std::accumulate(shares.begin(), shares.end(), uint64_t{0}) == pages);
  for (size_t i = 0; i < shares.size(); ++i) {
    RC_ASSERT(static_cast<double>(shares[i]) > least - 1.001);
    for (size_t j = 0; j < shares.size(); ++j) {
      if (weights[i] > weights[j]) RC_ASSERT(shares[i] + 1 >= shares[j]);
    }
  }
}

}  // namespace
}  // namespace farpage::prefetch
