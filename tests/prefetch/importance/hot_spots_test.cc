#include "prefetch/importance/hot_spots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "prefetch/ranking_confidence.h"

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 20 pages; each query looks at 3 and 7, and most at one of its own.
HotSpots looked_at(uint64_t queries) {
  HotSpots spots(0.1);
  for (uint64_t query = 0; query < queries; ++query) {
    spots.add(3, 0.2F);
    spots.add(7, 0.1F);
    spots.add(static_cast<PageNumber>(10 + query % 10), 0.5F);
    spots.end_query();
  }
  return spots;
}

TEST(HotSpots, AreWhatAllQueriesTogetherLookAtMost) {
  // 3 has 12, 7 has 6, and each of the others 3.
  EXPECT_THAT(looked_at(60).hot(), ElementsAre(3, 7));
}
TEST(HotSpots, AreNotNamedBeforeFiftyQueries) {
  EXPECT_THAT(looked_at(49).hot(), IsEmpty());
  EXPECT_EQ(looked_at(49).overlap(), 0);
  EXPECT_THAT(looked_at(50).hot(), ElementsAre(3, 7));
}
TEST(HotSpots, OverlapIsTheMeanJaccardIndexWithSingleQueries) {
  // Each query's own two are 3 and another: one of three are in both. The first query knew of 11
  // pages, the second of 12, and so on: two from the first on.
  EXPECT_DOUBLE_EQ(looked_at(60).overlap(), 1.0 / 3);
}
TEST(HotSpots, AddUpWhatAQueryGivesAPage) {
  HotSpots spots(0.1);
  for (int query = 0; query < 50; ++query) {
    for (int head = 0; head < 4; ++head) spots.add(2, 0.1F);
    spots.add(9, 0.3F);
    spots.end_query();
  }
  EXPECT_THAT(spots.hot(), ElementsAre(2));
  EXPECT_DOUBLE_EQ(spots.overlap(), 1);
}
TEST(HotSpots, WhatIsNoMassIsNoLook) {
  HotSpots spots(0.5);
  for (int query = 0; query < 50; ++query) {
    spots.add(1, std::nanf(""));
    spots.add(2, -1);
    spots.end_query();
  }
  EXPECT_THAT(spots.hot(), IsEmpty());
}

TEST(RankingConfidence, BeginsAsIfItKnewNothingAndLearns) {
  RankingConfidence right;
  RankingConfidence wrong;
  RankingConfidence none;
  EXPECT_DOUBLE_EQ(right.value(), 0.5);
  for (int i = 0; i < 2'000; ++i) {
    right.observe(true, false);
    wrong.observe(false, true);
    none.observe(true, true);
    none.observe(false, false);
  }
  EXPECT_GT(right.value(), 0.99);
  EXPECT_LT(wrong.value(), 0.01);
  EXPECT_DOUBLE_EQ(none.value(), 0.5);
}
TEST(HotSpots, ANumberThatIsUsedAgainWasNeverLookedAt) {
  HotSpots spots(0.5);
  for (uint64_t query = 0; query < HotSpots::kQueries; ++query) {
    spots.add(0, 1);
    spots.add(1, 0.5F);
    spots.end_query();
  }
  spots.add(0, 1);
  spots.on_forget(0);
  spots.end_query();
  EXPECT_THAT(spots.hot(), ElementsAre(1));
  spots.add(0, 1'000);
  spots.end_query();
  EXPECT_THAT(spots.hot(), ElementsAre(0));
  EXPECT_NEAR(spots.overlap(), 1.0 / (HotSpots::kQueries + 2), 1e-9);  // with the last alone
}

}  // namespace
}  // namespace farpage::prefetch
