#include "lab/decode/head_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farpage::decode {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(HeadSelection, WhatWakesInAStepDoesNotDriveOutWhatWokeInIt) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<bool> milestones(10);
    HeadSelection head(4, 8, 0, milestones);
    Random random(seed);
    for (const uint32_t position : {1, 2, 3, 4}) EXPECT_TRUE(head.wake(position, 0, random));
    EXPECT_THAT(head.far(), UnorderedElementsAre(1, 2, 3, 4));
    for (const uint32_t position : {6, 7, 8, 9}) EXPECT_TRUE(head.wake(position, 1, random));
    EXPECT_THAT(head.far(), UnorderedElementsAre(6, 7, 8, 9));
    EXPECT_FALSE(head.wake(6, 1, random)) << "it is selected";
  }
}

TEST(HeadSelection, WhoRestsLongestFallsAsleep) {
  const std::vector<bool> milestones = {false, false, true, false};
  HeadSelection head(1, 2, 0, milestones);
  head.rest(0);
  head.rest(1);
  head.rest(2);
  EXPECT_THAT(head.take_fallen_asleep(), IsEmpty()) << "a milestone does not rest";
  head.rest(3);
  EXPECT_THAT(head.take_fallen_asleep(), ElementsAre(0));
  EXPECT_THAT(head.take_fallen_asleep(), IsEmpty());
  EXPECT_TRUE(head.sleeps(0));
  EXPECT_FALSE(head.sleeps(1));
  EXPECT_TRUE(head.sleeps(2));
}

TEST(HeadSelection, WithoutSlotsNothingWakes) {
  const std::vector<bool> milestones(4);
  HeadSelection head(0, 2, 1, milestones);
  Random random(1);
  EXPECT_FALSE(head.wake(1, 0, random));
  head.churn(random, {0, 4, 4}, 0.5);
  EXPECT_THAT(head.far(), IsEmpty());
}

}  // namespace
}  // namespace farpage::decode
