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
// Two layers of two heads were told of.
TEST_F(PageRecordsTest, HeadsBeyondTheLayoutAreTakenAsTheyCome) {
  for (uint64_t step = 1; step <= 3; ++step) access(7, step, 1'000);
  EXPECT_EQ(records_[7].head, 1'000U);
  EXPECT_EQ(records_.turns(1'000), 3U);
  EXPECT_EQ(records_.page_of(1'000, 0), 7U);
  access(8, 3, 0);
  EXPECT_EQ(records_.same_of(7, 0), PageRecords::kNone);
}
TEST_F(PageRecordsTest, TheTimesOfAPageAreItsOwnHeadsWhoeverDemandsIt) {
  access(0, 1, 0);
  for (uint64_t step = 2; step <= 9; ++step) access(5, step, 1);
  EXPECT_FALSE(access(5, 10, 0));  // of head 0 this would be a time before its first
  EXPECT_EQ(records_[5].longest_gap, 0U);
  EXPECT_EQ(records_[5].head, 1U);
}
TEST_F(PageRecordsTest, ANumberThatIsUsedAgainIsANewPage) {
  for (PageNumber page = 0; page < 7; ++page) access(page, page + 1, 0);
  access(20, 40, 1);
  access(2, 100, 0);
  ASSERT_EQ(records_[2].longest_gap, 4U + 1);  // turns of its head
  records_.on_forget(2);
  EXPECT_EQ(records_.page_of(0, 2), PageRecords::kNone);
  EXPECT_FALSE(access(2, 101, 1));
  EXPECT_EQ(records_[2].visits, 1U);
  EXPECT_EQ(records_[2].head, 1U);
  EXPECT_EQ(records_[2].block, 1U);
  EXPECT_EQ(records_[2].longest_gap, 0U);
  EXPECT_EQ(records_.page_of(1, 1), 2U);
  records_.on_forget(99);  // of which nobody heard
}
TEST_F(PageRecordsTest, BlocksMatchAcrossHeadsAfterOthersAreForgotten) {
  for (PageNumber block = 0; block < 100; ++block) {
    for (uint32_t head = 0; head < 2; ++head) access(1'000 * head + block, block / 2 + 1, head);
  }
  for (PageNumber block = 0; block < 100; ++block) {
    if (block % 4 != 1) records_.on_forget(1'000 + block);
  }
  for (PageNumber block = 0; block < 100; ++block) {
    const bool is_known = block % 4 == 1;
    EXPECT_EQ(records_.same_of(block, 1), is_known ? 1'000 + block : PageRecords::kNone);
    if (!is_known) continue;
    EXPECT_EQ(records_.same_of(1'000 + block, 0), block);
    EXPECT_EQ(records_.page_of(1, records_[1'000 + block].block), 1'000 + block);
  }
}
// Else they would be remembered for ever.
TEST_F(PageRecordsTest, PlacesOfWhatWasForgottenAreGivenUp) {
  for (uint64_t step = 1; step <= 10'000; ++step) {
    const auto page = static_cast<PageNumber>(step % 10);
    records_.on_forget(page);
    access(page, step);
    EXPECT_LT(records_[page].block, 32U);
  }
}

}  // namespace
}  // namespace farpage::prefetch
