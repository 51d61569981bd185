#include "control/messages.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(VerdictCounts, EachCountIsAddedToItsOwn) {
  VerdictCounts sum = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  add_saturating(sum, {10, 20, 30, 40, 50, 60, 70, 80, 90});
  EXPECT_EQ(sum.fetches, 11u);
  EXPECT_EQ(sum.ready, 22u);
  EXPECT_EQ(sum.ready_bytes, 33u);
  EXPECT_EQ(sum.miss, 44u);
  EXPECT_EQ(sum.stale, 55u);
  EXPECT_EQ(sum.corrupt, 66u);
  EXPECT_EQ(sum.stalled, 77u);
  EXPECT_EQ(sum.unreachable, 88u);
  EXPECT_EQ(sum.slower, 99u);
}

TEST(VerdictCounts, SumStopsAtTheLargestNumber) {
  VerdictCounts sum = {.ready = UINT64_MAX - 5, .miss = 1};
  add_saturating(sum, {.ready = 6, .miss = UINT64_MAX});
  EXPECT_EQ(sum.ready, UINT64_MAX);
  EXPECT_EQ(sum.miss, UINT64_MAX);
  add_saturating(sum, {.ready = UINT64_MAX});
  EXPECT_EQ(sum.ready, UINT64_MAX);
}

}  // namespace
}  // namespace farpage
