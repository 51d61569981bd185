#include "bench/vtime/link.h"

#include <gtest/gtest.h>

namespace farpage::vtime {
namespace {

TEST(Link, DemandsFollowEachOtherAndOverlapTheirLatencies) {
  Link link(100, 10);
  EXPECT_EQ(link.demand(1'000), 1'110u);
  EXPECT_EQ(link.demand(1'000), 1'120u);
  EXPECT_EQ(link.demand(1'005), 1'130u);
  EXPECT_EQ(link.waited_ns(), 10u + 15u);
  EXPECT_EQ(link.demand(5'000), 5'110u);
  EXPECT_EQ(link.waited_ns(), 25u);
}
TEST(Link, PrefetchesBeginWhileItIsFree) {
  Link link(100, 10);
  link.prefetch(1, 7, 1'000);
  link.prefetch(2, 7, 1'000);
  link.prefetch(3, 7, 1'000);
  const auto begun = link.begin_until(1'011);
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun[0].page, 1u);
  EXPECT_EQ(begun[0].issued_step, 7u);
  EXPECT_EQ(begun[0].at_ns, 1'110u);
  EXPECT_EQ(begun[1].at_ns, 1'120u);
}
TEST(Link, ADemandGoesBeforeWhatWaitsAndInterruptsNothing) {
  Link link(100, 10);
  link.prefetch(1, 0, 1'000);
  link.prefetch(2, 0, 1'000);
  EXPECT_EQ(link.begin_until(1'005).size(), 1u);  // 1 is on its way until 1'010
  EXPECT_EQ(link.demand(1'005), 1'120u);
  const auto begun = link.begin_until(2'000);
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].at_ns, 1'130u);
}
TEST(Link, WhatWouldBeginNowComesAfterADemand) {
  Link link(100, 10);
  link.prefetch(1, 0, 1'000);
  EXPECT_TRUE(link.begin_until(1'000).empty());
  EXPECT_EQ(link.demand(1'000), 1'110u);
}
TEST(Link, WhatIsGivenUpNeverBegins) {
  Link link(100, 10);
  link.prefetch(1, 0, 1'000);
  link.prefetch(2, 0, 1'000);
  link.prefetch(3, 0, 1'000);
  EXPECT_TRUE(link.give_up(2));
  EXPECT_FALSE(link.give_up(2));
  const auto begun = link.begin_until(1'001);
  ASSERT_EQ(begun.size(), 1u);
  link.give_up_all();
  EXPECT_TRUE(link.begin_until(9'000).empty());
}

}  // namespace
}  // namespace farpage::vtime
