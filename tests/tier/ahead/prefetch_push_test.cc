#include "tests/tier/ahead/prefetch_fixture.h"
#include "tests/tier/push/cannot_push.h"

namespace farpage {
namespace {

// The node pushes the pages that are fetched ahead.
class PrefetchPush : public PrefetchTest {
 protected:
  static PrefetchOptions options() {
    PrefetchOptions options = small_options();
    options.push_group_pages = 2;
    return options;
  }
  PrefetchPush() : PrefetchTest(options()) {}

  void set_node_delay(uint64_t delay_ns) {
    cluster_.node_fabric().set_options({.delay_min_ns = delay_ns, .delay_max_ns = delay_ns});
  }
  // With pages pushed again and again until so many are here; requests and pages may be lost.
  void bring_at_last(std::vector<prefetch::PageNumber> pages) {
    const size_t count = pages.size();
    script_.names = std::move(pages);
    for (int round = 0; round < 100 && lane_.report().here < count; ++round) {
      lane_.observe({{{.key = test_key(0), .step = 2}}});
      drive(20 * kMillisecond);
    }
    ASSERT_EQ(lane_.report().here, count) << lane_.status();
    script_.names.clear();
  }
};

TEST_F(PrefetchPush, WhatIsNamedAtOnceComesAtOneRequestAndNothingIsRead) {
  put_all(6);
  hear_of(6);
  expect_next({1, 2, 3, 4});
  EXPECT_EQ(lane_.report().under_way, 4u);
  drive(5 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 4u);
  EXPECT_EQ(lane_.prefetch_stats().posts, 1u);
  EXPECT_EQ(lane_.prefetch_stats().pages_ready, 4u);
  EXPECT_EQ(lane_.prefetch_stats().operations, 0u);
  const uint64_t before = lane_.demand_stats().operations;
  {
    const Demand demand = demand_now({1, 2, 3, 4});
    for (size_t page = 0; page < 4; ++page) {
      EXPECT_EQ(put_number(demand, page), 101 + page);
      EXPECT_FALSE(is_in_frame(demand, page));
      EXPECT_TRUE(is_untouched(page));
    }
    // Of a page that was never read, two buckets and a header.
    EXPECT_LE(lane_.demand_stats().operations - before, 12u);
    expect_accounted(lane_.report(), 4);
  }
  expect_accounted(lane_.report(), 0);
}

// Protocol rule 2.
TEST_F(PrefetchPush, CopyIsNoAnswerOnceANewerPutIsAcknowledged) {
  put_all(3);
  hear_of(3);
  bring_at_last({1, 2});
  const PutResult newer = put(1, 200);
  const Demand demand = demand_now({1, 2});
  EXPECT_EQ(demand.verdicts[0].version, newer.version);
  EXPECT_EQ(put_number(demand, 0), 200u);
  EXPECT_TRUE(is_in_frame(demand, 0));
  EXPECT_EQ(put_number(demand, 1), 102u);
  EXPECT_FALSE(is_in_frame(demand, 1));
  EXPECT_EQ(lane_.report().outdated, 1u);
}

TEST_F(PrefetchPush, PageThatIsUnderWayIsWaitedForAndNotFetchedToo) {
  put_all(3);
  hear_of(3);
  set_node_delay(200 * kMicrosecond);
  expect_next({1, 2});
  ASSERT_EQ(lane_.report().under_way, 2u);
  script_.names.clear();
  const Demand demand = demand_now({2});
  EXPECT_EQ(put_number(demand), 102u);
  EXPECT_FALSE(is_in_frame(demand));
  EXPECT_EQ(lane_.report().pages.late, 1u);
  EXPECT_EQ(lane_.report().given_up, 0u);
}

TEST_F(PrefetchPush, WhatIsNotThereFailsAndGivesItsPlaceBack) {
  put_all(3);
  hear_of(6);
  script_.names = {4, 1, 5};
  lane_.observe({{{.key = test_key(0), .step = 2}}});
  drive(5 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 1u);
  EXPECT_EQ(lane_.report().pages.failed, 2u);
  EXPECT_EQ(put_number(demand_now({1})), 101u);
  EXPECT_EQ(lane_.report().taken_places, 0u);
}

// Of eight places six are lent; two are written again and again.
TEST_F(PrefetchPush, WhatIsLentStaysWhileOthersArePushed) {
  put_all(30);
  hear_of(30);
  bring_at_last({1, 2, 3, 4, 5, 6});
  const Demand held = demand_now({1, 2, 3, 4, 5, 6});
  for (uint32_t page = 7; page < 29; page += 2) {
    bring_at_last({page, page + 1});
    const Demand demand = demand_now({page, page + 1});
    EXPECT_EQ(put_number(demand, 0), 100u + page);
    EXPECT_EQ(put_number(demand, 1), 101u + page);
  }
  for (size_t page = 0; page < 6; ++page) EXPECT_EQ(put_number(held, page), 101 + page);
  expect_accounted(lane_.report(), 6);
}

// I3, I4: places that the node may still write are not used again before it has ended with them.
TEST_F(PrefetchPush, NodeThatIsPausedInABurstCostsNoDemandItsDeadlineAndNoPlaceItsBytes) {
  put_all(12);
  hear_of(12);
  bring_at_last({1, 2});
  const Demand held = demand_now({1, 2});
  set_node_delay(kMillisecond);
  expect_next({3, 4, 5, 6});
  ASSERT_GT(lane_.report().under_way, 0u);
  cluster_.node_fabric().pause();
  for (int round = 0; round < 10; ++round) {
    expect_next({3, 4, 5, 6, 7, 8}, 3);
    const uint64_t deadline_ns = now() + 2 * kMillisecond;
    const Demand demand = demand_now({4, 9}, 2 * kMillisecond);
    EXPECT_LE(now(), deadline_ns);
    for (size_t page : {0, 1}) {
      ASSERT_NE(demand.verdicts[page].verdict, Verdict::kPending);
      const bool is_ready = demand.verdicts[page].verdict == Verdict::kReady;
      EXPECT_TRUE(!is_ready || put_number(demand, page).has_value());
    }
    drive(3 * kMillisecond);
  }
  cluster_.node_fabric().resume();
  set_node_delay(kReadNs);
  script_.names.clear();
  drive(200 * kMillisecond);
  EXPECT_GT(lane_.report().pages.failed, 0u);
  hear_of(12, 50);
  drive(kMillisecond);
  for (size_t page : {0, 1}) EXPECT_EQ(put_number(held, page), 101 + page);
  expect_accounted(lane_.report(), 2);
  bring_at_last({5, 6});
  EXPECT_EQ(put_number(demand_now({6})), 106u);
}

TEST_F(PrefetchPush, NextRunOfTheNodePushesAgainAndWhatIsLentStays) {
  put_all(4);
  hear_of(4);
  bring_at_last({1});
  const Demand held = demand_now({1});
  lane_.announce(std::vector{test_key(3)});
  drive(5 * kMillisecond);
  ASSERT_EQ(lane_.report().here, 1u);
  expect_next({2});
  cluster_.end_node(NodeEnd::kKilled);
  script_.names.clear();
  drive(50 * kMillisecond);
  cluster_.start_node();
  drive(500 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 0u) << "it would keep the former landing";
  expect_accounted(lane_.report(), 1);
  put_all(4);
  hear_of(4, 3);
  bring_at_last({2, 3});
  EXPECT_EQ(put_number(demand_now({2})), 102u);
  EXPECT_EQ(put_number(held), 101u);
  EXPECT_GT(lane_.prefetch_stats().channels_ended, 0u);
}

TEST_F(PrefetchPush, WhereNothingCanBePushedItIsRefused) {
  CannotPush fabric(cluster_.client_fabric(0));
  const auto client = cluster_.connect(0, {}, &fabric).value();
  const auto lane =
      PrefetchLane::open(*client, options(), std::make_unique<ScriptedPrefetcher>(script_));
  ASSERT_FALSE(lane);
  EXPECT_EQ(lane.error().code, Code::kInvalid);
  PrefetchOptions many = options();
  many.landing_pages = 4'096;
  many.known_pages = 65'536;
  EXPECT_EQ(PrefetchLane::open(*client_, many, std::make_unique<ScriptedPrefetcher>(script_))
                .error()
                .code,
            Code::kInvalid);
}

}  // namespace
}  // namespace farpage
