#include "integrity/recovery.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

using Action = Recovery::Action;

constexpr ReplicaStates kAllWell = {.reachable = 0b111, .open = 0b111, .trusted = 0b111};
constexpr bool kSlow = true;

Recovery ask(Action action, uint8_t rank) {
  return {action, rank, Reason::kNone};
}
Recovery recompute(Reason reason) {
  return {Action::kRecompute, 0, reason};
}
Recovery after(const PageHistory& history, const ReplicaStates& states = kAllWell) {
  return recover(history, states, false);
}

TEST(RecoveryTest, FirstOfAllIsThePrimary) {
  EXPECT_EQ(after({}), ask(Action::kNextReplica, 0));
}

TEST(RecoveryTest, MissStaleAndCorruptGoToTheNextReplica) {
  for (const auto said : {&PageHistory::missed, &PageHistory::stale, &PageHistory::corrupt}) {
    PageHistory history = {.asked = 0b1, .last = 0, .attempts = 1};
    history.*said = 0b1;
    EXPECT_EQ(after(history), ask(Action::kNextReplica, 1));
  }
}

TEST(RecoveryTest, MissIsFinalWhenAllThatCanBeAskedHaveMissed) {
  PageHistory history = {.asked = 0b11, .missed = 0b11, .last = 1, .attempts = 2};
  EXPECT_EQ(after(history), ask(Action::kNextReplica, 2));
  EXPECT_EQ(after(history, {0b011, 0b011, 0b011}), recompute(Reason::kMiss));
  history.missed = 0b111;
  EXPECT_EQ(after(history), recompute(Reason::kMiss));
}

TEST(RecoveryTest, WorstThatAReplicaSaidIsTheReason) {
  PageHistory history = {.missed = 0b011, .stale = 0b100, .attempts = 3};
  EXPECT_EQ(after(history), recompute(Reason::kStale));
  history = {.missed = 0b001, .stale = 0b010, .corrupt = 0b100, .attempts = 3};
  EXPECT_EQ(after(history), recompute(Reason::kCorrupt));
}

TEST(RecoveryTest, AttemptThatCameToNothingGoesElsewhereAndComesBackLast) {
  PageHistory history = {.asked = 0b1, .failed = 0b1, .last = 0, .attempts = 1};
  EXPECT_EQ(after(history), ask(Action::kNextReplica, 1));
  history = {.asked = 0b111, .failed = 0b001, .missed = 0b110, .last = 2, .attempts = 3};
  EXPECT_EQ(after(history), ask(Action::kNextReplica, 0));
}

TEST(RecoveryTest, OnlyReplicaIsLookedAtAgain) {
  const PageHistory history = {.asked = 0b1, .failed = 0b1, .last = 0, .attempts = 1};
  EXPECT_EQ(after(history, {0b1, 0b1, 0b1}), ask(Action::kLookAgain, 0));
}

TEST(RecoveryTest, ReplicaThatRefusesForGoodIsNotAskedAgain) {
  const PageHistory history = {.asked = 0b1, .failed = 0b1, .gone = 0b1, .last = 0, .attempts = 3};
  EXPECT_EQ(after(history, {0b1, 0b1, 0b1}), recompute(Reason::kUnreachable));
}

TEST(RecoveryTest, NobodyToAskIsUnreachable) {
  EXPECT_EQ(after({}, {0, 0, 0b111}), recompute(Reason::kUnreachable));
}

TEST(RecoveryTest, NoWordIsFinalWhileAReplicaThatHasSaidNothingReturns) {
  for (const auto said : {&PageHistory::missed, &PageHistory::stale, &PageHistory::corrupt}) {
    PageHistory history = {.asked = 0b1, .last = 0, .attempts = 1};
    history.*said = 0b1;
    ReplicaStates states = {.reachable = 0b1, .open = 0b1, .trusted = 0b1, .returning = 0b10};
    EXPECT_EQ(after(history, states), Recovery{});
    states.reachable = states.open = 0;
    EXPECT_EQ(after(history, states), Recovery{}) << "nor if the one that has said it is lost too";
  }
}

TEST(RecoveryTest, ReplicaThatReturnsIsAskedThoughItFailedBefore) {
  const PageHistory history = {
      .asked = 0b11, .failed = 0b10, .missed = 0b01, .last = 1, .attempts = 2};
  EXPECT_EQ(after(history, {.reachable = 0b01, .open = 0b01, .returning = 0b10}), Recovery{});
  EXPECT_EQ(after(history, {.reachable = 0b11, .open = 0b11}), ask(Action::kLookAgain, 1));
}

TEST(RecoveryTest, AnotherReplicaIsAskedMeanwhile) {
  const PageHistory history = {.asked = 0b1, .missed = 0b1, .last = 0, .attempts = 1};
  EXPECT_EQ(after(history, {.reachable = 0b101, .open = 0b101, .returning = 0b010}),
            ask(Action::kNextReplica, 2));
}

TEST(RecoveryTest, NobodyWaitsForAReplicaThatCouldSayNothingNew) {
  PageHistory history = {.asked = 0b11, .missed = 0b11, .last = 1, .attempts = 2};
  const ReplicaStates states = {.reachable = 0b01, .open = 0b01, .returning = 0b10};
  EXPECT_EQ(after(history, states), recompute(Reason::kMiss));
  history = {.asked = 0b11, .gone = 0b10, .missed = 0b01, .last = 1, .attempts = 2};
  EXPECT_EQ(after(history, states), recompute(Reason::kMiss));
}

TEST(RecoveryTest, PageOfWhichNobodyHasSaidAnythingWaitsForNoReturn) {
  EXPECT_EQ(after({}, {.returning = 0b111}), recompute(Reason::kUnreachable));
  const PageHistory history = {.asked = 0b1, .failed = 0b1, .last = 0, .attempts = 1};
  EXPECT_EQ(after(history, {.returning = 0b111}), recompute(Reason::kUnreachable));
}

TEST(RecoveryTest, WordsCountForNothingOnceTheViewOfTheEpochHasEnded) {
  for (const auto said : {&PageHistory::missed, &PageHistory::stale, &PageHistory::corrupt}) {
    PageHistory history = {.asked = 0b1, .last = 0, .attempts = 1};
    history.*said = 0b1;
    EXPECT_EQ(after(history, {.has_view = false}), recompute(Reason::kUnreachable));
    EXPECT_EQ(after(history, {.returning = 0b10, .has_view = false}),
              recompute(Reason::kUnreachable));
  }
  const PageHistory all = {.missed = 0b111, .last = 2, .attempts = 3};
  EXPECT_EQ(after(all, {.has_view = false}), recompute(Reason::kUnreachable));
}

TEST(RecoveryTest, ReplicaWithoutAPathIsWaitedForOnlyIfNoOtherHasOne) {
  EXPECT_EQ(after({}, {0b111, 0b100, 0b111}), ask(Action::kNextReplica, 2));
  EXPECT_EQ(after({}, {0b111, 0, 0b111}), Recovery{});
}

TEST(RecoveryTest, BreakerPassesOverWhileAnotherReplicaExists) {
  EXPECT_EQ(after({}, {0b111, 0b111, 0b110}), ask(Action::kNextReplica, 1));
  EXPECT_EQ(after({}, {0b001, 0b001, 0}), ask(Action::kNextReplica, 0));
  const PageHistory missed = {.missed = 0b110, .last = 1, .attempts = 2};
  EXPECT_EQ(after(missed, {0b111, 0b111, 0b110}), ask(Action::kNextReplica, 0));
}

TEST(RecoveryTest, SlowAttemptIsHedgedOnceAtAnotherReplica) {
  PageHistory history = {.asked = 0b1, .under_way = 0b1, .last = 0, .attempts = 1};
  EXPECT_EQ(recover(history, kAllWell, kSlow), ask(Action::kHedge, 1));
  EXPECT_EQ(recover(history, kAllWell, !kSlow), Recovery{});
  EXPECT_EQ(recover(history, {0b111, 0b111, 0b101}, kSlow), ask(Action::kHedge, 2));
  EXPECT_EQ(recover(history, {0b001, 0b001, 0b001}, kSlow), Recovery{});
  history.hedged = true;
  EXPECT_EQ(recover(history, kAllWell, kSlow), Recovery{});
}

TEST(RecoveryTest, PageWhoseHedgeIsStillUnderWayWaits) {
  const PageHistory history = {
      .asked = 0b11, .under_way = 0b10, .failed = 0b01, .last = 0, .attempts = 2, .hedged = true};
  EXPECT_EQ(after(history), Recovery{});
}

TEST(RecoveryTest, RecomputeIsFasterThanALongQueue) {
  EXPECT_FALSE(slower_than_recompute(100, 0, 64, 100));
  EXPECT_TRUE(slower_than_recompute(100, 0, 64, 99));
  EXPECT_TRUE(slower_than_recompute(100, 64, 64, 199));
  EXPECT_FALSE(slower_than_recompute(100, 64, 64, 200));
}

}  // namespace
}  // namespace farpage
