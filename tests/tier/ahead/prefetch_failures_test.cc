#include <array>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "tests/support/recorded_metrics.h"
#include "tests/tier/ahead/prefetch_fixture.h"

namespace farpage {
namespace {

using fault::FaultKind;

class PrefetchFailures : public PrefetchTest {
 protected:
  // As many as there are places, one after the other, until all have ended.
  void end_all() {
    script_.names.clear();
    hear_of(1, 1'000);
    drive(200 * kMillisecond);
    const PrefetchReport report = lane_.report();
    EXPECT_EQ(report.under_way, 0u);
    EXPECT_EQ(report.here, 0u);
    EXPECT_EQ(report.waiting, 0u);
    EXPECT_EQ(report.taken_places, 0u);
    expect_accounted(report, 0);
  }
};

std::string end_name(NodeEnd end) {
  constexpr std::array kNames = {"Stopped", "Killed", "PowerLost"};
  return kNames[static_cast<size_t>(end)];
}

class NodeDies : public PrefetchFailures, public testing::WithParamInterface<NodeEnd> {};

TEST_P(NodeDies, InTheMiddleOfABurstAndDemandsGoOn) {
  put_all(8);
  hear_of(8);
  bring({1});
  expect_next({2, 3, 4, 5});
  ASSERT_GT(lane_.report().under_way, 0u);
  cluster_.end_node(GetParam());
  for (int round = 0; round < 20; ++round) {
    const uint64_t deadline = now() + 5 * kMillisecond;
    expect_next({2, 3, 4, 5, 6, 7});
    const Demand demand = demand_now({1, 2, 6, 7}, 5 * kMillisecond);
    EXPECT_LE(now(), deadline);
    for (size_t page = 0; page < 4; ++page) {
      ASSERT_NE(demand.verdicts[page].verdict, Verdict::kPending);
      const bool is_ready = demand.verdicts[page].verdict == Verdict::kReady;
      EXPECT_TRUE(!is_ready || put_number(demand, page).has_value());
    }
    drive(10 * kMillisecond);
  }
  script_.names.clear();
  EXPECT_NE(demand_now({1}, kMillisecond).verdicts[0].verdict, Verdict::kReady);
  EXPECT_GT(lane_.report().pages.failed, 0u);
  cluster_.start_node();
  drive(500 * kMillisecond);
  EXPECT_EQ(demand_now({1}).verdicts[0].reason, Reason::kMiss);
  put_all(4);
  EXPECT_EQ(put_number(demand_now({1})), 101u);
  hear_of(4);
  bring({2});
  EXPECT_FALSE(is_in_frame(demand_now({2})));
  end_all();
}

INSTANTIATE_TEST_SUITE_P(, NodeDies,
                         testing::Values(NodeEnd::kStopped, NodeEnd::kKilled, NodeEnd::kPowerLost),
                         [](const auto& info) { return end_name(info.param); });

TEST_F(PrefetchFailures, FeedbackThatNeverComesLeavesDemandsAsTheyAre) {
  put_all(4);
  for (uint64_t number = 0; number < 4; ++number) {
    EXPECT_EQ(put_number(demand_now({number})), 100 + number);
  }
  EXPECT_EQ(lane_.report().known_pages, 0u);
  end_all();
}

TEST_F(PrefetchFailures, MarksAndWithdrawalsOfPagesNeverHeardOfAreCounted) {
  hear_of(1);
  const std::vector<PageKey> keys = {test_key(0), test_key(7), test_key(8)};
  lane_.mark_milestone(keys[1]);
  lane_.withdraw(keys);
  lane_.set_near(keys, false);
  EXPECT_TRUE(script_.milestones.empty());
  EXPECT_EQ(lane_.report().unknown_keys, 3u);
  EXPECT_EQ(lane_.report().known_pages, 1u);
  EXPECT_EQ(lane_.report().pages.cancelled, 0u);
}

TEST_F(PrefetchFailures, WhatIsNoNumberIsNoughtAndCounted) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  lane_.observe({{{.key = test_key(1), .step = 1, .mass = kNan, .entropy = kInfinity},
                  {.key = test_key(1), .step = 1, .score = -kInfinity, .similarity = kNan},
                  {.key = test_key(1), .step = 1, .margin = kNan},
                  {.key = test_key(1), .step = 1, .mark = static_cast<prefetch::Mark>(99)},
                  {.key = test_key(1), .step = 1, .head = 4},
                  {.key = test_key(1), .step = 1}}});
  EXPECT_EQ(lane_.report().malformed_events, 5u);
  ASSERT_EQ(script_.accesses.size(), 5u) << "all but that of a head that is none";
  for (const prefetch::Access& access : script_.accesses) {
    EXPECT_EQ(access.mass + access.score + access.similarity + access.entropy + access.margin, 0);
    EXPECT_EQ(access.mark, prefetch::Mark::kNone);
  }
}

TEST_F(PrefetchFailures, StepsThatGoBackAreThoseOfAnotherSequence) {
  const auto at = [this](uint64_t step) {
    lane_.observe({{{.key = test_key(1), .step = step}}});
    return script_.accesses.back().step;
  };
  EXPECT_EQ(at(5), 5u);
  EXPECT_EQ(at(3), 6u) << "the next of all";
  EXPECT_EQ(at(3), 6u);
  EXPECT_EQ(at(7), 8u) << "two more than 5";
  // Of sequences that are told of together, the one that is farther counts.
  lane_.observe({{{.key = test_key(1), .step = 8}, {.key = test_key(2), .step = 2}}});
  EXPECT_EQ(script_.accesses.back().step, 9u);
  EXPECT_EQ(lane_.report().malformed_events, 0u);
}

TEST_F(PrefetchFailures, SequencesThatTakeTurnsEndNothing) {
  put_all(6);
  hear_of(6);
  lane_.observe({{{.key = test_key(0), .step = 1'001}}});
  bring({1, 2, 3, 4}, 1'001);
  for (uint64_t turn = 1; turn < 5; ++turn) {
    lane_.observe({{{.key = test_key(0), .step = 10 + turn}}});
    lane_.observe({{{.key = test_key(0), .step = 1'001 + turn}}});
  }
  EXPECT_EQ(lane_.report().here, 4u);
  EXPECT_EQ(lane_.report().pages.unused, 0u);
}

TEST_F(PrefetchFailures, StepBeyondAllOthersEndsNothingForGood) {
  put_all(4);
  hear_of(4);
  for (const uint64_t step : {UINT64_MAX, uint64_t{1} << 60}) {
    bring({1, 2}, step);
    expect_next({1, 2}, 2);
    expect_next({1, 2}, 8);
    EXPECT_EQ(lane_.report().here, 2u);
    for (uint64_t later = 9; later < 20; ++later) expect_next({}, later);
    EXPECT_EQ(lane_.report().here, 0u) << "their time is over";
  }
}

// Where only requests are announced, and no step is told of.
TEST_F(PrefetchFailures, WindowThatWasClosedOpensAgainWithoutAPlan) {
  put_all(8);
  for (int i = 0; i < 20; ++i) demand_now({7});
  set_delay(9 * kMillisecond);
  lane_.announce(std::vector{test_key(1)});
  lane_.progress();
  ASSERT_EQ(lane_.report().under_way, 1u);
  set_delay(5 * kReadNs);
  for (int i = 0; i < 3; ++i) demand_now({7});
  ASSERT_EQ(lane_.report().window_pages, 0u);
  set_delay(kReadNs);
  drive(20 * kMillisecond);
  lane_.announce(std::vector{test_key(2)});
  for (int i = 0; i < 3; ++i) demand_now({7});
  drive(10 * kReadNs);
  EXPECT_FALSE(is_in_frame(demand_now({2})));
}

TEST_F(PrefetchFailures, WhatWasNamedIsNotWaitedForOnceNoStepIsToldOfAnyMore) {
  put_all(12);
  hear_of(12);
  bring({1, 2, 3, 4, 5, 6, 7, 8});
  lane_.announce(std::vector{test_key(9)});
  drive(10 * kReadNs);
  EXPECT_EQ(lane_.report().here, 8u) << "there is no room for it";
  cluster_.world().run_until(now() + 11 * kSecond);
  drive(20 * kReadNs);
  EXPECT_EQ(lane_.report().here, 1u);
  EXPECT_FALSE(is_in_frame(demand_now({9})));
  bring({3});
}

TEST_F(PrefetchFailures, AnnouncementsThatAreRefusedCostNothingThatIsKnown) {
  put_all(8);
  hear_of(8);
  std::vector<PageKey> keys;
  for (uint64_t number = 1'000; number < 1'200; ++number) keys.push_back(test_key(number));
  lane_.announce(keys);
  EXPECT_EQ(lane_.report().forgotten_pages, 0u);
  EXPECT_GT(lane_.report().pages.refused, 100u);
  lane_.withdraw(keys);
  bring({3, 4});
}

TEST_F(PrefetchFailures, PrefetcherThatAsksForEverythingIsKeptWithinBounds) {
  put_all(60);
  hear_of(60);
  for (uint64_t step = 2; step < 60; ++step) {
    std::vector<prefetch::PageNumber> all = {UINT32_MAX, 64, 63};
    for (uint32_t page = 0; page < 60; ++page)
      all.push_back(static_cast<uint32_t>(page + step) % 60);
    all.insert(all.end(), {1, 1, 1});
    expect_next(all, step);
    drive(5 * kReadNs);
    const PrefetchReport report = lane_.report();
    ASSERT_LE(report.taken_places, 8u);
    ASSERT_LE(report.under_way, 8u);
    ASSERT_LE(report.waiting, 8u) << "as many as a plan names";
    const Demand demand = demand_now({step % 60});
    ASSERT_EQ(put_number(demand), 100 + step % 60);
  }
  end_all();
}

TEST_F(PrefetchFailures, AnnouncementsBeyondWhatMayWaitAreRefused) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 60; ++number) keys.push_back(test_key(number));
  lane_.announce(keys);
  EXPECT_LE(lane_.report().waiting, 32u);
  EXPECT_GT(lane_.report().pages.refused, 0u);
  lane_.withdraw(keys);
  end_all();
}

TEST_F(PrefetchFailures, WhatIsNotThereIsNotAskedForAgainUntilItIsHeardOf) {
  hear_of(4);
  for (uint64_t step = 2; step < 9; ++step) {
    expect_next({2, 3}, step);
    drive(10 * kReadNs);
  }
  EXPECT_EQ(lane_.report().pages.failed, 2u);
  put_all(4);
  hear_of(4, 9);
  bring({2, 3}, 9);
}

TEST_F(PrefetchFailures, TableIsBoundedAndWhatIsUnderWayOrHereStaysInIt) {
  put_all(8);
  hear_of(8);
  bring({1});
  set_delay(kMillisecond);
  expect_next({2});
  set_delay(kReadNs);
  script_.names.clear();
  std::vector<ObservedAccess> many;
  for (uint64_t number = 1'000; number < 1'200; ++number) {
    many.push_back({.key = test_key(number), .step = 2});
  }
  lane_.observe(many);
  EXPECT_EQ(lane_.report().known_pages, 64u);
  EXPECT_EQ(lane_.report().forgotten_pages, 200u + 8 - 64);
  EXPECT_EQ(script_.forgotten.size(), lane_.report().forgotten_pages);
  for (const prefetch::PageNumber page : script_.forgotten) {
    EXPECT_TRUE(page != 1 && page != 2) << page;
  }
  drive(10 * kMillisecond);
  const Demand demand = demand_now({1, 2});
  EXPECT_FALSE(is_in_frame(demand, 0));
  EXPECT_FALSE(is_in_frame(demand, 1));
}

TEST_F(PrefetchFailures, NumberThatIsUsedAgainKeepsNothingOfThePageBefore) {
  put_all(4);
  hear_of(3);
  lane_.set_near(std::vector{test_key(1)}, true);
  std::vector<ObservedAccess> many;
  for (uint64_t number = 1'000; number < 1'061; ++number) {
    many.push_back({.key = test_key(number), .step = 2});
  }
  lane_.observe(many);
  ASSERT_TRUE(script_.forgotten.empty());
  // Numbers 0 and 2, which were used longest ago, and then 1.
  for (const uint64_t number : {2'000, 2'001, 3}) {
    const PageKey key = test_key(number);
    lane_.announce({&key, 1});
    lane_.withdraw({&key, 1});
  }
  ASSERT_EQ(script_.forgotten, (std::vector<prefetch::PageNumber>{0, 2, 1}));
  EXPECT_EQ(script_.evicted, (std::vector<prefetch::PageNumber>{1})) << "the engine had it";
  drive(20 * kReadNs);
  const uint64_t begun = lane_.report().pages.begun;
  script_.names = {0, 1, 2};
  lane_.observe({});
  lane_.progress();
  EXPECT_EQ(lane_.report().pages.begun, begun) << "named for what was heard of the page before";
  script_.names = {1};
  lane_.observe({{{.key = test_key(3), .step = 2}}});
  drive(20 * kReadNs);
  EXPECT_EQ(lane_.report().here, 1u) << "the engine does not hold this one";
  EXPECT_EQ(put_number(demand_now({3})), 103u);
  EXPECT_TRUE(is_in_frame(demand_now({1})));
}

TEST_F(PrefetchFailures, ClockThatJumpsEndsWhatIsUnderWay) {
  put_all(8);
  hear_of(8);
  for (const uint64_t ahead_ns : {kMillisecond, 50 * kMillisecond, 3600 * kSecond}) {
    bring({1});
    set_delay(kMillisecond / 2);
    expect_next({2, 3, 4});
    Demand early = demand({1, 2, 5}, 10 * kMillisecond);
    cluster_.world().after(100 * kMicrosecond,
                           [&] { cluster_.client_fabric(0).jump_clock(ahead_ns); });
    early.fetch.wait();
    for (const PageVerdict& verdict : early.verdicts) {
      EXPECT_NE(verdict.verdict, Verdict::kPending);
    }
    early.fetch = DemandFetch();
    set_delay(kReadNs);
    script_.names.clear();
    drive(500 * kMillisecond);
    EXPECT_EQ(put_number(demand_now({1})), 101u) << ahead_ns;
    lane_.withdraw(std::vector{test_key(1)});
    expect_accounted(lane_.report(), 0);
    script_.names.clear();
  }
  end_all();
}

// A put and a remove while the node's answers are wrong in any way: counted as failed, at the most.
TEST_F(PrefetchFailures, DamagedPrefetchIsNoPage) {
  put_all(4);
  hear_of(4);
  demand_now({1, 2, 3});
  for (const FaultKind kind :
       {FaultKind::kFlippedPayload, FaultKind::kFlippedHeader, FaultKind::kTorn, FaultKind::kShort,
        FaultKind::kNothing, FaultKind::kStaleSlot, FaultKind::kFailed}) {
    inject(kind);
    expect_next({1, 2, 3});
    drive(20 * kReadNs);
    faulty_.set_plan({});
    script_.names.clear();
    const Demand demand = demand_now({1, 2, 3});
    for (size_t page = 0; page < 3; ++page) EXPECT_EQ(put_number(demand, page), 101 + page);
    drive(20 * kReadNs);
  }
  end_all();
}

TEST_F(PrefetchFailures, StatusAndMetricsTellTheSame) {
  put_all(4);
  hear_of(4);
  bring({1, 2});
  demand_now({1});
  const std::string status = lane_.status();
  EXPECT_NE(status.find("fetched ahead: 2 pages, of which 0 under way, 1 here, 1 timely"),
            std::string::npos)
      << status;
  RecordedMetrics metrics;
  lane_.describe(metrics);
  EXPECT_TRUE(metrics.without_help.empty());
  EXPECT_EQ(metrics.values["farpage_prefetch_begun_pages_total"], 2);
  EXPECT_EQ(metrics.values["farpage_prefetch_pages_total{fate=timely}"], 1);
  EXPECT_EQ(metrics.values["farpage_prefetch_here_pages"], 1);
  EXPECT_EQ(metrics.values["farpage_prefetch_lent_pages_total"], 1);
}

TEST_F(PrefetchFailures, MetricsAreTheDocuments) {
  std::map<std::string, std::string> documented;
  std::ifstream document(FARPAGE_METRICS_DOC);
  for (std::string line; std::getline(document, line);) {  // | `name{label}` | kind, unit | ...
    if (!line.starts_with("| `farpage_prefetch_")) continue;
    const size_t kind = line.find("` | ") + 4;
    documented[line.substr(3, line.find_first_of("{`", 3) - 3)] =
        line.substr(kind, line.find(',', kind) - kind);
  }
  ASSERT_FALSE(documented.empty()) << FARPAGE_METRICS_DOC;
  RecordedMetrics metrics;
  lane_.describe(metrics);
  std::map<std::string, std::string> described;
  for (const auto& [name, kind] : metrics.kinds) {
    ASSERT_NE(kind, MetricKind::kHistogram) << name;
    described[name] = kind == MetricKind::kCounter ? "counter" : "gauge";
  }
  EXPECT_EQ(described, documented);
}

}  // namespace
}  // namespace farpage
