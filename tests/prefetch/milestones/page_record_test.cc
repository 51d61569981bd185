#include "prefetch/milestones/page_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace farpage::prefetch {
namespace {

class PageRecordsTest : public testing::Test {
 protected:
  bool access(PageNumber page, uint64_t step, uint32_t head = 0, float entropy = 0) {
    Access access = {0, step, page};
    access.head = head;
    access.entropy = entropy;
    access.mass = 0.5F;
    return records_.on_access(access, step, segmenter_);
  }

  Segmenter segmenter_;
  PageRecords records_{{2, 2}};
};

TEST_F(PageRecordsTest, APageComesBackAfterAnAbsence) {
  const std::set<uint64_t> steps = {1, 2, 6, 11, 111, 121};  // 6: four after 2
  std::vector<uint64_t> back;
  for (uint64_t step = 1; step <= 121; ++step) {
    access(9, step);
    if (steps.contains(step) && access(0, step)) back.push_back(step);
  }
  EXPECT_THAT(back, testing::ElementsAre(11, 111, 121));
  EXPECT_EQ(records_[0].visits, 4U);
  EXPECT_EQ(records_[0].longest_gap, 100U);
  EXPECT_EQ(records_[0].last_gap, 10U);
  EXPECT_EQ(records_[0].last_turn, 121U);
}
TEST_F(PageRecordsTest, WhereLayersTakeTurnsAnAbsenceIsCountedInItsOwn) {
  // Four heads, one of them in each step: what is demanded in each turn was never away.
  for (uint64_t step = 1; step <= 400; ++step) {
    const auto head = static_cast<uint32_t>(step % 4);
    EXPECT_FALSE(access(head, step, head));
  }
  EXPECT_EQ(records_[1].visits, 1U);
  EXPECT_EQ(records_.turns(1), 100U);
}
TEST_F(PageRecordsTest, ABlockIsTheSameInAllHeads) {
  for (uint32_t head = 0; head < 4; ++head) access(head, 1, head);
  for (uint32_t head = 0; head < 4; ++head) access(10 + head, 17, head);
  EXPECT_EQ(records_.page_of(2, 0), 2U);
  EXPECT_EQ(records_.page_of(3, 1), 13U);
  EXPECT_EQ(records_[12].block, 1U);
  EXPECT_EQ(records_.page_of(3, 2), PageRecords::kNone);
  EXPECT_EQ(records_.page_of(4, 0), PageRecords::kNone);
}
TEST_F(PageRecordsTest, WhatHeadsDemandFirstInTheSameStepIsTheSameInAnyOrderOfOlderPages) {
  access(0, 1, 0);
  for (PageNumber older = 10; older < 15; ++older) access(older, 2, 1);
  for (uint32_t head = 0; head < 3; ++head) access(20 + head, 3, head);
  for (uint32_t head = 0; head < 3; ++head) access(30 + head, 3, head);
  EXPECT_EQ(records_.same_of(20, 1), 21U);
  EXPECT_EQ(records_.same_of(32, 1), 31U);
  EXPECT_EQ(records_.same_of(30, 3), PageRecords::kNone);
  EXPECT_EQ(records_.same_of(12, 0), PageRecords::kNone);
}
TEST_F(PageRecordsTest, ItsTokensAreThoseOfTheStepsInWhichItWasItsHeadsNewest) {
  access(0, 1, 0, 1);
  access(0, 2, 0, 3);
  access(0, 2, 0, 3);  // no more of the same step
  EXPECT_FLOAT_EQ(records_[0].entropy, 2);
  access(1, 3, 0, 8);
  access(0, 3, 0, 8);
  EXPECT_FLOAT_EQ(records_[0].entropy, 2);
  EXPECT_EQ(records_[0].tokens, 2U);
  EXPECT_FLOAT_EQ(records_[1].entropy, 8);
}
TEST_F(PageRecordsTest, ItsMassIsAMovingAverage) {
  access(0, 1);
  access(0, 2);
  EXPECT_FLOAT_EQ(records_[0].mass, 0.05F + 0.1F * (0.5F - 0.05F));
}
TEST_F(PageRecordsTest, KnowsTheSegmentAndThePhaseInWhichItWasWritten) {
  Access marked = {0, 1, 0};
  marked.mark = Mark::kConcludes;
  segmenter_.on_step(std::array{marked});
  access(0, 1);
  EXPECT_EQ(records_[0].segment, 1U);
  EXPECT_EQ(records_[0].phase, Mark::kConcludes);
}

}  // namespace
}  // namespace farpage::prefetch
