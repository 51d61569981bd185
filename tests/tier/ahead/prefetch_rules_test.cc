#include "pagetable/guards.h"
#include "tests/tier/ahead/prefetch_fixture.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr DemandOptions kCached = {.allow_cached = true};

// Protocol rule 2, and what follows for who waits for what is under way.
class PrefetchRules : public PrefetchTest {
 protected:
  PrefetchRules() {
    put_all(8);
    hear_of(8);
  }
  void begin(std::vector<prefetch::PageNumber> pages, uint64_t delay_ns) {
    set_delay(delay_ns);
    const size_t count = pages.size();
    expect_next(std::move(pages));
    ASSERT_EQ(lane_.report().under_way, count);
    set_delay(kReadNs);
    script_.names.clear();
  }
};

TEST_F(PrefetchRules, CopyIsNoAnswerOnceANewerPutIsAcknowledged) {
  bring({1});
  const PutResult newer = put(1, 200);
  const Demand demand = demand_now({1});
  ASSERT_EQ(demand.verdicts[0].verdict, Verdict::kReady);
  EXPECT_EQ(demand.verdicts[0].version, newer.version);
  EXPECT_EQ(put_number(demand), 200u);
  EXPECT_TRUE(is_in_frame(demand));
  EXPECT_EQ(lane_.report().outdated, 1u);
  EXPECT_EQ(lane_.report().taken_places, 0u);
}

TEST_F(PrefetchRules, CopyIsNoAnswerOnceARemoveIsAcknowledged) {
  bring({1});
  const PageKey key = test_key(1);
  ASSERT_TRUE(writing_->remove({&key, 1}, writer_.deadline()).wait());
  EXPECT_EQ(demand_now({1}).verdicts[0].reason, Reason::kMiss);
  EXPECT_EQ(lane_.report().taken_places, 0u);
}

TEST_F(PrefetchRules, WhoAllowsACachedPageGetsItWithoutARead) {
  bring({1});
  const PutResult newer = put(1, 200);
  const uint64_t before = lane_.demand_stats().operations;
  {
    const Demand demand = demand_now({1}, kSecond, kCached);
    EXPECT_EQ(put_number(demand), 101u);
    EXPECT_EQ(lane_.demand_stats().operations, before);
  }
  bring({1});
  put(1, 201);
  const Demand demand = demand_now({1}, kSecond, kCached, newer.version + 1);
  EXPECT_EQ(put_number(demand), 201u) << "unless it says what is too old";
}

TEST_F(PrefetchRules, CachedPageThatIsUnderWayMayBeTooOldAsWell) {
  ASSERT_EQ(put_number(demand_now({1})), 101u);  // where it lies is known
  begin({1}, 20 * kReadNs);
  drive(50 * kReadNs);  // the old one has been read
  const PutResult newer = put(1, 200);
  EXPECT_EQ(put_number(demand_now({1}, kSecond, kCached, newer.version)), 200u);
  EXPECT_EQ(lane_.report().outdated, 1u);
}

TEST_F(PrefetchRules, PutWhileThePageIsUnderWayIsSeen) {
  ASSERT_EQ(put_number(demand_now({1})), 101u);
  // The node's memory is read half of the time before the completion comes.
  for (uint64_t wait_ns = 0; wait_ns < 40 * kReadNs; wait_ns += kReadNs) {
    begin({1}, 20 * kReadNs);
    drive(wait_ns);
    const PutResult newer = put(1, 200 + wait_ns);
    const Demand demand = demand_now({1});
    EXPECT_EQ(put_number(demand), 200 + wait_ns);
    EXPECT_EQ(demand.verdicts[0].version, newer.version);
    drive(40 * kReadNs);
  }
  EXPECT_GT(lane_.report().outdated, 0u);
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST_F(PrefetchRules, WithoutTheHeaderReadAnOldCopyIsFound) {
  const GuardOff off(Guard::kHeaderRereadForLocal);
  bring({1});
  const PutResult newer = put(1, 200);
  const Demand demand = demand_now({1});
  EXPECT_EQ(put_number(demand), 101u);
  EXPECT_LT(demand.verdicts[0].version, newer.version);
}

#endif

TEST_F(PrefetchRules, PageUnderWayIsReadOnceAndNotTwice) {
  ASSERT_EQ(put_number(demand_now({1})), 101u);
  const LaneStats demands = lane_.demand_stats();
  const LaneStats prefetches = lane_.prefetch_stats();
  begin({1}, 20 * kReadNs);
  const Demand demand = demand_now({1});
  EXPECT_EQ(put_number(demand), 101u);
  EXPECT_FALSE(is_in_frame(demand));
  EXPECT_TRUE(is_untouched(0));
  EXPECT_EQ(lane_.prefetch_stats().operations - prefetches.operations, 1u);
  EXPECT_EQ(lane_.demand_stats().operations - demands.operations, 1u) << "its header";
  EXPECT_EQ(lane_.report().pages.late, 1u);
}

TEST_F(PrefetchRules, CachedPageUnderWayIsReadOnceAndItsHeaderNever) {
  ASSERT_EQ(put_number(demand_now({1})), 101u);
  const uint64_t before = lane_.demand_stats().operations + lane_.prefetch_stats().operations;
  begin({1}, 20 * kReadNs);
  const Demand demand = demand_now({1}, kSecond, kCached);
  EXPECT_EQ(put_number(demand), 101u);
  EXPECT_EQ(lane_.demand_stats().operations + lane_.prefetch_stats().operations - before, 1u);
}

TEST_F(PrefetchRules, SecondDemandOfAPageUnderWayFetchesItItself) {
  begin({1}, 20 * kReadNs);
  Demand first = demand({1});
  PageVerdict verdict;
  const PageRequest request = {test_key(1), 0, engine_.slice(5)};
  DemandFetch second = lane_.fetch({&request, 1}, {&verdict, 1}, engine_.deadline());
  second.wait();
  EXPECT_EQ(verdict.landed, request.destination.data);
  EXPECT_FALSE(first.fetch.done());
  first.fetch.wait();
  EXPECT_EQ(put_number(first), 101u);
}

TEST_F(PrefetchRules, FailedPrefetchIsFetchedInWhatIsLeftOfTheDemand) {
  inject(FaultKind::kLost);
  begin({1}, kReadNs);
  faulty_.set_plan({});
  drive(9 * kMillisecond);  // of ten
  const Demand demand = demand_now({1}, 50 * kMillisecond);
  EXPECT_EQ(put_number(demand), 101u);
  EXPECT_TRUE(is_in_frame(demand));
  EXPECT_GE(demand.verdicts[0].took_ns, kMillisecond);
  EXPECT_LT(demand.verdicts[0].took_ns, 2 * kMillisecond);
  drive(50 * kMillisecond);
  EXPECT_EQ(lane_.report().pages.failed, 1u);
  EXPECT_EQ(lane_.report().taken_places, 0u);
}

TEST_F(PrefetchRules, PrefetchThatIsLateIsWaitedForHalfOfTheTime) {
  begin({1}, 9 * kMillisecond / 3);
  const Demand demand = demand_now({1}, 2 * kMillisecond);
  EXPECT_EQ(put_number(demand), 101u);
  EXPECT_TRUE(is_in_frame(demand));
  EXPECT_GE(demand.verdicts[0].took_ns, kMillisecond);
  EXPECT_EQ(lane_.report().given_up, 1u);
  EXPECT_EQ(lane_.report().taken_places, 1u) << "it may still land there";
  const std::vector<std::byte> page(engine_.frame(0).begin(), engine_.frame(0).end());
  drive(20 * kMillisecond);
  EXPECT_TRUE(std::ranges::equal(page, engine_.frame(0)));
  EXPECT_EQ(lane_.report().taken_places, 0u);
  expect_accounted(lane_.report(), 0);
}

TEST_F(PrefetchRules, NothingComesAndTheVerdictIsThereAtTheDeadline) {
  begin({1}, kReadNs);
  inject(FaultKind::kLost);
  const uint64_t deadline = now() + kMillisecond;
  const Demand demand = demand_now({1, 2}, kMillisecond);
  EXPECT_EQ(now(), deadline);
  for (const PageVerdict& verdict : demand.verdicts) EXPECT_EQ(verdict.reason, Reason::kStalled);
}

TEST_F(PrefetchRules, DeadlineThatHasPassedGivesVerdictsAtOnce) {
  bring({1});
  begin({2}, 20 * kReadNs);
  Demand late = demand({1, 2, 3}, 0);
  EXPECT_TRUE(late.fetch.done());
  for (const PageVerdict& verdict : late.verdicts) EXPECT_EQ(verdict.reason, Reason::kStalled);
  drive(100 * kReadNs);
  bring({4});
  Demand cached = demand({4, 2, 3}, 0, kCached);
  EXPECT_TRUE(cached.fetch.done());
  for (const PageVerdict& verdict : cached.verdicts) EXPECT_EQ(verdict.reason, Reason::kStalled);
}

// A second fetch that has not ended may still write to the destination.
TEST_F(PrefetchRules, DestinationIsHeldUntilTheSecondFetchHasEnded) {
  bring({1});
  put(1, 200);
  Demand demand = this->demand({1}, 200 * kMicrosecond);
  // Its header has been looked for where the old one was, and in the index, and is almost here.
  drive(17 * kReadNs / 2);
  ASSERT_FALSE(demand.fetch.done());
  set_delay(kMillisecond);
  demand.fetch.wait();
  EXPECT_EQ(demand.verdicts[0].reason, Reason::kStalled);
  EXPECT_EQ(demand.verdicts[0].place, Place::kHeld);
  EXPECT_FALSE(demand.fetch.released());
  EXPECT_TRUE(demand.fetch.wait_released(now() + kSecond));
  EXPECT_EQ(demand.verdicts[0].place, Place::kReleased);
}

TEST_F(PrefetchRules, DemandThatGoesBeforeItsEndLeavesNothingBehind) {
  bring({1});
  put(1, 200);
  begin({2, 3}, 20 * kReadNs);
  const std::vector<uint64_t> numbers = {1, 2, 4};
  for (uint64_t wait_ns = 0; wait_ns < 8 * kReadNs; wait_ns += kReadNs) {
    Demand gone = demand(numbers);
    drive(wait_ns);
    gone.fetch = DemandFetch();
    for (const PageVerdict& verdict : gone.verdicts) {
      EXPECT_NE(verdict.verdict, Verdict::kPending);
      EXPECT_EQ(verdict.place, Place::kReleased);
    }
  }
  drive(50 * kReadNs);
  EXPECT_EQ(lane_.report().taken_places, lane_.report().here);
  expect_accounted(lane_.report(), 0);
}

TEST_F(PrefetchRules, DemandThatGoesBeginsNothing) {
  begin({1}, 3 * kMillisecond);
  Demand gone = demand({1}, 2 * kMillisecond, kCached);
  cluster_.world().run_until(now() + 3 * kMillisecond / 2);  // it is not waited for any more
  gone.fetch = DemandFetch();
  EXPECT_EQ(lane_.demand_stats().operations, 0u);
  EXPECT_EQ(gone.verdicts[0].reason, Reason::kStalled);
}

// As long as alone, though the other lane has all its pages under way.
TEST_F(PrefetchRules, DemandIsNotBehindABurstOfPrefetches) {
  ASSERT_EQ(put_number(demand_now({7})), 107u);
  const uint64_t alone_ns = demand_now({7}).verdicts[0].took_ns;
  begin({1, 2, 3, 4}, kMillisecond);
  const Demand beside = demand_now({7});
  EXPECT_EQ(put_number(beside), 107u);
  EXPECT_LE(beside.verdicts[0].took_ns, alone_ns + kMicrosecond);
  EXPECT_EQ(lane_.report().under_way, 4u);
}

// A page that is demanded in the step that names it is not fetched ahead of itself.
TEST_F(PrefetchRules, DemandGoesBeforeWhatIsExpected) {
  script_.names = {1, 2};
  hear_of(8, 2);
  EXPECT_EQ(lane_.prefetch_stats().operations, 0u);
  const Demand beside = demand_now({1, 7});
  EXPECT_TRUE(is_in_frame(beside, 0));
  EXPECT_EQ(lane_.report().pages.overtaken, 1u);
  EXPECT_EQ(lane_.report().pages.begun, 1u) << "behind the demand, without another call";
}

// A channel that has to be closed is one that no demand uses.
TEST_F(PrefetchRules, LostPrefetchEndsNoDemandsChannel) {
  ASSERT_EQ(put_number(demand_now({7})), 107u);
  ASSERT_EQ(put_number(demand_now({1})), 101u);  // so that it is the page's read that is lost
  inject(FaultKind::kLost);
  begin({1}, kReadNs);
  faulty_.set_plan({});
  drive(10 * kMillisecond - kReadNs);
  const Demand beside = demand_now({7});
  EXPECT_EQ(put_number(beside), 107u);
  EXPECT_EQ(beside.verdicts[0].looks, 1);
  EXPECT_EQ(lane_.prefetch_stats().channels_ended, 0u) << "before L has passed";
  drive(20 * kMillisecond);
  EXPECT_EQ(lane_.report().pages.failed, 1u);
  EXPECT_EQ(lane_.prefetch_stats().channels_ended, 1u);
  EXPECT_EQ(lane_.demand_stats().channels_ended, 0u);
}

// Slower demands make the window smaller.
TEST_F(PrefetchRules, WindowHearsHowLongDemandsTook) {
  for (int i = 0; i < 20; ++i) demand_now({7});
  const uint64_t window = lane_.report().window_pages;
  ASSERT_GT(window, 1u);
  begin({1}, kMillisecond);
  set_delay(5 * kReadNs);
  demand_now({7});
  EXPECT_EQ(lane_.report().window_pages, window / 2);
}

TEST_F(PrefetchRules, WindowHearsOfDemandsThatNothingCameOf) {
  for (int i = 0; i < 20; ++i) demand_now({7});
  const uint64_t window = lane_.report().window_pages;
  begin({1}, kMillisecond);
  set_delay(kMillisecond);
  EXPECT_EQ(demand_now({7}, kMillisecond).verdicts[0].reason, Reason::kStalled);
  EXPECT_EQ(lane_.report().window_pages, window / 2);
}

// Its verdicts are no longer lent to it once it is done, whoever drove the lane until then.
TEST_F(PrefetchRules, WindowHearsOfADemandThatEndsWhileAnotherGoes) {
  for (int i = 0; i < 20; ++i) demand_now({7});
  const uint64_t window = lane_.report().window_pages;
  begin({1}, kMillisecond);
  set_delay(5 * kReadNs);
  Demand gone = demand({6});
  Demand stays = demand({7});
  cluster_.world().run_until(now() + 20 * kReadNs);
  gone.fetch = DemandFetch();
  ASSERT_TRUE(stays.fetch.done());
  EXPECT_EQ(lane_.report().window_pages, window / 2);
}

// It was posted first, and shares the way all the same.
TEST_F(PrefetchRules, WhatBeginsBehindADemandIsBesideIt) {
  for (int i = 0; i < 20; ++i) demand_now({7});
  const uint64_t window = lane_.report().window_pages;
  script_.names = {1};
  hear_of(8, 2);
  set_delay(5 * kReadNs);
  demand_now({7});
  ASSERT_EQ(lane_.report().pages.begun, 1u);
  EXPECT_EQ(lane_.report().window_pages, window / 2);
}

// Where all is here, headers are all that demands wait for.
TEST_F(PrefetchRules, HeadersAreFeltBesideWhatHeadersUsuallyTake) {
  for (int i = 0; i < 20; ++i) {
    bring({2});
    EXPECT_FALSE(is_in_frame(demand_now({2})));
  }
  bring({2});
  const uint64_t window = lane_.report().window_pages;
  begin({1}, kMillisecond);
  set_delay(5 * kReadNs);
  EXPECT_FALSE(is_in_frame(demand_now({2})));
  EXPECT_EQ(lane_.report().window_pages, window / 2);
}

TEST_F(PrefetchRules, WhatIsWaitedForInVainMakesTheWindowSmaller) {
  begin({1, 2, 3}, 9 * kMillisecond);
  const uint64_t window = lane_.report().window_pages;
  EXPECT_EQ(put_number(demand_now({1, 2, 3}, 2 * kMillisecond)), 101u);
  EXPECT_EQ(lane_.report().given_up, 3u);
  EXPECT_EQ(lane_.report().window_pages, window / 2) << "once, and not for each page";
}

// I3: who waits for one demand keeps no other from its verdict.
TEST_F(PrefetchRules, VerdictOfOneDemandDoesNotWaitForAnother) {
  bring({1});
  Demand early = demand({1}, 5 * kMillisecond);
  ASSERT_FALSE(early.fetch.done());
  set_delay(20 * kMillisecond);
  Demand late = demand({7}, 50 * kMillisecond);
  Verdict by_then = Verdict::kPending;
  cluster_.world().after(4 * kMillisecond, [&] { by_then = early.verdicts[0].verdict; });
  late.fetch.wait();
  EXPECT_EQ(by_then, Verdict::kReady);
  EXPECT_EQ(put_number(early), 101u);
}

// An engine that would have it sooner by itself is told so, whichever way was tried first.
TEST_F(PrefetchRules, WhatIsFetchedAgainIsHeldAgainstWhatARecomputeTakes) {
  DemandOptions options = kCached;
  options.fetch.recompute_ns = kSecond;
  for (int i = 0; i < 200; ++i)
    demand_now({7}, kSecond, options);  // how long a read takes is known
  bring({1});
  const PutResult newer = put(1, 200);
  options.fetch.recompute_ns = 1;
  const Demand demand = demand_now({1}, kSecond, options, newer.version);
  EXPECT_EQ(demand.verdicts[0].reason, Reason::kSlower);
}

}  // namespace
}  // namespace farpage
