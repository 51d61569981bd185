#include "prefetch/milestones/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace farpage::prefetch {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

// Two layers of two heads. Block b of head h is page 10 * b + h; three blocks are of the first
// segment, three of the second.
class CandidatesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (PageNumber block = 0; block < 6; ++block) {
      Access access = {0, block, 0};
      access.mark = block == 3 ? Mark::kBegins : Mark::kNone;
      segmenter_.on_step({&access, 1});
      for (uint32_t head = 0; head < 4; ++head) {
        access.page = 10 * block + head;
        access.head = head;
        records_.on_access(access, block + 1, segmenter_);
      }
    }
  }
  std::map<PageNumber, int> relations() const {
    std::map<PageNumber, int> relations;
    for (const auto& each : candidates_.all()) relations[each.page] = each.relations;
    return relations;
  }

  static constexpr HeadLayout kLayout = {2, 2};
  Segmenter segmenter_;
  PageRecords records_{kLayout};
  Candidates candidates_{kLayout};
};

TEST_F(CandidatesTest, AreTheRestOfItsSegmentAndTheSameBlockElsewhere) {
  candidates_.on_return(11, 100, records_);  // block 1 of head 1
  EXPECT_THAT(relations(),
              UnorderedElementsAre(Pair(1, Candidates::kSegment), Pair(21, Candidates::kSegment),
                                   Pair(10, Candidates::kHeads), Pair(12, Candidates::kLayers),
                                   Pair(13, Candidates::kLayers)));
}
TEST_F(CandidatesTest, GatherTheWaysInWhichTheyBelong) {
  candidates_.on_return(11, 100, records_);
  candidates_.on_return(0, 102, records_);
  const auto found = std::ranges::find(candidates_.all(), 10U, &Candidates::Candidate::page);
  ASSERT_NE(found, candidates_.all().end());
  EXPECT_EQ(found->relations, Candidates::kSegment | Candidates::kHeads);
  EXPECT_EQ(found->triggers, 2);
  EXPECT_EQ(found->trigger, 0U);
  EXPECT_EQ(found->trigger_step, 102U);
}
TEST_F(CandidatesTest, AreOnesForTenStepsFromTheLastReturn) {
  candidates_.on_return(11, 100, records_);
  candidates_.on_return(10, 105, records_);  // 20, among others, and not 21
  candidates_.on_step(109);
  EXPECT_THAT(relations(), Contains(Key(21)));
  candidates_.on_step(110);
  EXPECT_THAT(relations(), Not(Contains(Key(21))));
  EXPECT_THAT(relations(), Contains(Key(20)));
  candidates_.on_step(115);
  EXPECT_THAT(relations(), IsEmpty());
  candidates_.on_return(11, 200, records_);
  EXPECT_EQ(candidates_.all().size(), 5U);
}
TEST_F(CandidatesTest, AreThereOnceHoweverManyHaveGoneBefore) {
  candidates_.on_return(11, 100, records_);
  candidates_.on_return(42, 105, records_);
  candidates_.on_step(110);
  candidates_.on_return(42, 111, records_);
  std::set<PageNumber> pages;
  for (const auto& each : candidates_.all()) EXPECT_TRUE(pages.insert(each.page).second);
  EXPECT_EQ(pages.size(), 5U);
}
TEST_F(CandidatesTest, KnowInHowManyHeadsTheirBlockCameAndSinceWhen) {
  const auto find = [&](PageNumber page) {
    return *std::ranges::find(candidates_.all(), page, &Candidates::Candidate::page);
  };
  candidates_.on_return(11, 100, records_);
  candidates_.on_return(10, 101, records_);
  EXPECT_EQ(find(12).same_block, 2);
  EXPECT_EQ(find(12).block_step, 100U);
  EXPECT_EQ(find(21).same_block, 0);
  candidates_.on_return(13, 110, records_);  // and the first is over
  EXPECT_EQ(find(12).same_block, 1);
  EXPECT_EQ(find(12).block_step, 110U);
}
TEST_F(CandidatesTest, WhatMadeRoomIsOne) {
  candidates_.on_gone(21, 100);
  EXPECT_THAT(relations(), UnorderedElementsAre(Pair(21, Candidates::kGone)));
}
TEST_F(CandidatesTest, WhatHasFollowedBeforeIsOne) {
  candidates_.on_return(11, 100, records_);
  candidates_.on_return(50, 103, records_);
  candidates_.on_step(200);
  candidates_.on_return(11, 201, records_);
  EXPECT_THAT(relations(), Contains(Pair(50, Candidates::kCompanion)));
}
TEST_F(CandidatesTest, ANumberThatIsUsedAgainIsNone) {
  candidates_.on_return(11, 100, records_);
  candidates_.on_forget(21);
  candidates_.on_forget(13);
  candidates_.on_forget(42);  // which was none
  EXPECT_THAT(relations(), UnorderedElementsAre(Key(1), Key(10), Key(12)));
  candidates_.on_return(11, 101, records_);
  EXPECT_EQ(candidates_.all().size(), 5U);
}

}  // namespace
}  // namespace farpage::prefetch
