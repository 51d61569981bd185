#include "tier/fetch/index_reads.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "tier/fetch/lane_peer.h"

namespace farpage {
namespace {

class IndexReadsTest : public testing::Test {
 protected:
  static constexpr OperationTag part(uint8_t part, uint32_t step) { return {step, part, 0}; }
  LanePeer& peer() {
    return *reinterpret_cast<LanePeer*>(peer_.data());
  }  // known by its address alone
  QuestionState* begin() { return reads_.begin(keys_, answers_, kNever, 1); }

  IndexReads reads_;
  std::array<PageKey, 3> keys_ = {};
  std::array<KeyAnswer, 3> answers_ = {};
  alignas(LanePeer) std::array<std::byte, sizeof(LanePeer)> peer_ = {};
};

TEST_F(IndexReadsTest, AReadHasEndedOnceBothOfItsOperationsHave) {
  QuestionState* question = begin();
  const uint16_t place = reads_.take(*question, peer(), 2, 0, 9);
  EXPECT_TRUE(reads_.operation_ended(place, part(2, 9), true));
  EXPECT_TRUE(reads_.ended().empty());
  EXPECT_FALSE(reads_.operation_ended(place, part(2, 9), true));  // it has come before
  EXPECT_FALSE(reads_.operation_ended(place, part(1, 8), true));  // of another step
  EXPECT_TRUE(reads_.operation_ended(place, part(1, 9), true));
  ASSERT_EQ(reads_.ended().size(), 1u);
  EXPECT_FALSE(reads_.at(place).broken);
  EXPECT_FALSE(question->done());
  reads_.free_ended();
  EXPECT_EQ(reads_.free_places(), IndexReads::kPlaces);
  EXPECT_FALSE(question->done());  // two keys are to come
  EXPECT_EQ(question->next, 1u);
}

TEST_F(IndexReadsTest, APlaceStaysTakenUntilItsReadHasEnded) {
  QuestionState* question = begin();
  const uint16_t place = reads_.take(*question, peer(), 1, 0, 1);
  reads_.recycle(question);
  EXPECT_TRUE(reads_.questions().empty());
  EXPECT_TRUE(reads_.any());
  EXPECT_EQ(reads_.free_places(), IndexReads::kPlaces - 1);
  QuestionState* other = begin();
  EXPECT_NE(reads_.take(*other, peer(), 1, 0, 2), place);
  EXPECT_TRUE(reads_.operation_ended(place, part(1, 1), true));
  EXPECT_EQ(reads_.at(place).question, nullptr);
  reads_.free_ended();
  EXPECT_EQ(reads_.free_places(), IndexReads::kPlaces - 1);
  EXPECT_EQ(other->under_way, 1u);
}

TEST_F(IndexReadsTest, WhatIsGivenUpIsDone) {
  QuestionState* question = begin();
  reads_.take(*question, peer(), 2, 0, 1);
  reads_.give_up(*question);
  EXPECT_TRUE(question->done());
  reads_.drop_done();
  EXPECT_TRUE(reads_.questions().empty());
  EXPECT_EQ(reads_.under_way(), 1u);
}

TEST_F(IndexReadsTest, TheReadsOfAChannelThatIsGoneAreBroken) {
  QuestionState* question = begin();
  const uint16_t place = reads_.take(*question, peer(), 2, 0, 1);
  reads_.operations_ended(peer());
  reads_.operations_ended(peer());
  ASSERT_EQ(reads_.ended().size(), 1u);
  EXPECT_TRUE(reads_.at(place).broken);
}

TEST_F(IndexReadsTest, MoreQuestionsThanItHasMemoryForTakeMore) {
  std::vector<QuestionState*> questions;
  for (size_t i = 0; i < IndexReads::kQuestions + 3; ++i) questions.push_back(begin());
  EXPECT_EQ(reads_.questions().size(), questions.size());
  for (QuestionState* question : questions) reads_.recycle(question);
  EXPECT_FALSE(reads_.any());
}

}  // namespace
}  // namespace farpage
