#include "prefetch/milestones/loss_limit.h"

#include <gtest/gtest.h>

namespace farpage::prefetch {
namespace {

// A loop through one page more than there is room for: what was used last never hits.
TEST(LossLimit, WhoMissesWhatTheShadowMissesIsAllowed) {
  LossLimit limit(4);
  for (PageNumber i = 0; i < 10'000; ++i) limit.on_access(i % 5, 0);
  EXPECT_TRUE(limit.allows());
}
TEST(LossLimit, WhoMissesWhatTheShadowHitsMayDoSoForAWhile) {
  LossLimit limit(4);
  for (PageNumber page = 0; page < 4; ++page) limit.on_access(page, 0);
  int lost = 0;
  for (; limit.allows() && lost < 1'000; ++lost) limit.on_access(0, 0);
  EXPECT_EQ(lost, 9);  // 8, and a little for the four
}
TEST(LossLimit, ItMayLoseA200thOfTheShadowsMisses) {
  LossLimit limit(4);
  PageNumber page = 0;
  double lost = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    limit.on_access(page, 0);
    if (limit.allows()) {
      limit.on_access(page, 0);  // the shadow has it
      ++lost;
    }
    ++page;
  }
  EXPECT_NEAR(lost / 1'000'000, 0.005, 0.0002);
}
TEST(LossLimit, WhatWasGainedCountsUpToALimit) {
  LossLimit limit(4);
  for (PageNumber page = 0; page < 100'000; ++page) limit.on_access(page, 1);
  int lost = 0;
  for (; limit.allows() && lost < 10'000; ++lost) limit.on_access(99'999, 0);
  EXPECT_EQ(lost, 256);
}
TEST(LossLimit, OfAMemoryOfWhichNothingIsKnownAllIsAllowed) {
  LossLimit limit(0);
  for (int i = 0; i < 1'000; ++i) limit.on_access(0, 0);
  EXPECT_TRUE(limit.allows());
}

}  // namespace
}  // namespace farpage::prefetch
