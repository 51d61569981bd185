#include <gtest/gtest.h>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tests/support/recorded_metrics.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;

double metric(const Client& client, const std::string& name) {
  RecordedMetrics metrics;
  client.describe(metrics);
  EXPECT_TRUE(metrics.values.contains(name)) << name;
  return metrics.values[name];
}

double recompute(const Client& client, const std::string& reason) {
  return metric(client, "farpage_client_recompute_pages_total{reason=" + reason + "}");
}

class ClientMetrics : public ::testing::Test {
 protected:
  VerdictCounts told() {
    const auto status = client_->node_status(cluster_.now_ns() + kSecond);
    EXPECT_TRUE(status.has_value());
    return status ? status->verdicts : VerdictCounts();
  }
  void run_for(uint64_t duration_ns) {
    cluster_.world().run_until(cluster_.now_ns() + duration_ns);
  }
  void run_for_a_lease() { run_for(small_sim_node().lease_ms * kMillisecond); }

  SimCluster cluster_{1, {}};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &faulty_).value();
  Engine engine_{*client_, kPageBytes, 8};
};

// A reader that asks for the counter late sees the earlier counts.
TEST_F(ClientMetrics, AFetchsCounterCountsWhatEndedBeforeItWasAskedForToo) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  const PageRequest requests[] = {{test_key(1), 0, engine_.slice(0)},
                                  {test_key(100), 0, engine_.slice(1)}};
  for (const bool asks_late : {false, true, false}) {  // the same counter, used again
    SCOPED_TRACE(asks_late);
    PageVerdict verdicts[2];
    Fetch fetch = engine_.lane().fetch(requests, verdicts, engine_.deadline());
    int calls = 0;
    if (!asks_late) {
      EXPECT_EQ(fetch.counter().value().total(), 0u);
      fetch.counter().on_done([&] { ++calls; });
      EXPECT_EQ(calls, 0);
    }
    fetch.wait();
    EXPECT_TRUE(fetch.counter().done());
    EXPECT_EQ(fetch.counter().value().ok, 1u);
    EXPECT_EQ(fetch.counter().value().failed, 1u);
    if (asks_late) fetch.counter().on_done([&] { ++calls; });
    EXPECT_EQ(calls, 1);
  }
}

// Both have ended before anybody looks. A page that has its verdict when the second counter is
// asked for is counted once.
TEST_F(ClientMetrics, ACounterThatIsAskedForAtAnothersEndCountsEachPageOnce) {
  std::vector<PageRequest> requests;
  for (uint64_t page = 0; page < 3; ++page) {
    ASSERT_EQ(engine_.put(test_key(page), page).code, Code::kOk);
    ASSERT_EQ(engine_.fetch(test_key(page)).verdict, Verdict::kReady);  // it is located now
    requests.push_back({test_key(page), 0, engine_.slice(page)});
  }
  PageVerdict verdicts[3];
  const std::span<const PageRequest> all(requests);
  Fetch first =
      engine_.lane().fetch(all.first(1), std::span(verdicts).first(1), engine_.deadline());
  Fetch second = engine_.lane().fetch(all.last(2), std::span(verdicts).last(2), engine_.deadline());
  first.counter().on_done([&] { (void)second.counter(); });
  run_for(kMillisecond);
  engine_.lane().progress();
  ASSERT_TRUE(first.done());
  ASSERT_TRUE(second.done());
  EXPECT_EQ(second.counter().value().ok, 2u);
  EXPECT_EQ(second.counter().value().total(), 2u);
}

// Both verdicts are given at one look at the clock, whichever comes last.
TEST_F(ClientMetrics, AFetchOfReadyAndMissingPagesIsOneFetch) {
  for (const bool missing_first : {false, true}) {
    SCOPED_TRACE(missing_first);
    const uint64_t stored = missing_first ? 11 : 12;
    ASSERT_EQ(engine_.put(test_key(stored), stored).code, Code::kOk);
    const double before = metric(*client_, "farpage_client_fetch_seconds");
    PageRequest requests[] = {{test_key(stored), 0, engine_.slice(0)},
                              {test_key(100), 0, engine_.slice(1)}};
    if (missing_first) std::swap(requests[0], requests[1]);
    PageVerdict verdicts[2];
    engine_.lane().fetch(requests, verdicts, engine_.deadline()).wait();
    EXPECT_EQ(verdicts[missing_first ? 1 : 0].verdict, Verdict::kReady);
    EXPECT_EQ(verdicts[missing_first ? 0 : 1].reason, Reason::kMiss);
    EXPECT_EQ(metric(*client_, "farpage_client_fetch_seconds"), before + 1);
  }
}

TEST_F(ClientMetrics, VerdictsAreCountedByReason) {
  const PutResult put = engine_.put(test_key(1), 1);
  ASSERT_EQ(put.code, Code::kOk);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  ASSERT_EQ(engine_.fetch(test_key(2)).reason, Reason::kMiss);
  ASSERT_EQ(engine_.fetch(test_key(1), put.version + 1).reason, Reason::kStale);
  fault::FaultPlan flips;
  flips.of(fault::FaultKind::kFlippedPayload) = 1;
  faulty_.set_plan(flips);
  ASSERT_EQ(engine_.fetch(test_key(1)).reason, Reason::kCorrupt);
  faulty_.set_plan({});
  ASSERT_EQ(engine_.fetch(test_key(1), 0, 0).reason, Reason::kStalled);
  EXPECT_EQ(metric(*client_, "farpage_client_ready_pages_total"), 3);
  EXPECT_EQ(metric(*client_, "farpage_client_ready_bytes_total"), 3 * kPageBytes);
  EXPECT_EQ(recompute(*client_, "miss"), 1);
  EXPECT_EQ(recompute(*client_, "stale"), 1);
  EXPECT_EQ(recompute(*client_, "corrupt"), 1);
  EXPECT_EQ(recompute(*client_, "stalled"), 1);
  EXPECT_EQ(recompute(*client_, "unreachable"), 0);
  EXPECT_EQ(metric(*client_, "farpage_client_fetch_seconds"), 7);
  EXPECT_EQ(metric(*client_, "farpage_client_page_seconds{verdict=ready}"), 3);
  EXPECT_EQ(metric(*client_, "farpage_client_page_seconds{verdict=recompute}"), 4);
  EXPECT_EQ(metric(*client_, "farpage_client_puts_total{result=acknowledged}"), 1);

  run_for_a_lease();
  const VerdictCounts verdicts = told();
  EXPECT_EQ(verdicts.fetches, 7u);
  EXPECT_EQ(verdicts.ready, 3u);
  EXPECT_EQ(verdicts.ready_bytes, 3 * kPageBytes);
  EXPECT_EQ(verdicts.miss, 1u);
  EXPECT_EQ(verdicts.stale, 1u);
  EXPECT_EQ(verdicts.corrupt, 1u);
  EXPECT_EQ(verdicts.stalled, 1u);
  EXPECT_EQ(verdicts.unreachable, 0u);
}

// So that the node's pages are all that its clients asked for.
TEST_F(ClientMetrics, PageThatWasFasterToRecomputeIsToldToTheNode) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  const PageRequest request = {test_key(1), 0, engine_.slice(0)};
  PageVerdict verdict;
  uint64_t fetched = 0;
  while (verdict.verdict != Verdict::kRecompute && ++fetched < 1000) {
    engine_.lane()
        .fetch({&request, 1}, {&verdict, 1}, engine_.deadline(), {.recompute_ns = 1})
        .wait();
  }
  ASSERT_EQ(verdict.reason, Reason::kSlower);
  EXPECT_EQ(recompute(*client_, "slower"), 1);
  run_for_a_lease();
  const VerdictCounts verdicts = told();
  EXPECT_EQ(verdicts.slower, 1u);
  EXPECT_EQ(verdicts.ready + verdicts.slower, fetched);
}

TEST_F(ClientMetrics, EverythingButTheVerdictsIsWhatTheLanesSay) {
  Lane second = client_->open_lane().value();
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  EXPECT_TRUE(second.contains(test_key(1), engine_.deadline()));
  const LaneStats a = engine_.lane().stats();
  const LaneStats b = second.stats();
  const auto expect_sum = [&](const char* name, uint64_t LaneStats::*member) {
    EXPECT_GT(a.*member, 0u) << name;
    EXPECT_EQ(metric(*client_, name), static_cast<double>(a.*member + b.*member)) << name;
  };
  expect_sum("farpage_client_ready_pages_total", &LaneStats::pages_ready);
  expect_sum("farpage_client_posts_total", &LaneStats::posts);
  expect_sum("farpage_client_operations_total", &LaneStats::operations);
  expect_sum("farpage_client_index_looks_total", &LaneStats::index_looks);
  expect_sum("farpage_client_located_pages_total", &LaneStats::located);
  EXPECT_EQ(metric(*client_, "farpage_client_channels_ended_total"), 0);
  EXPECT_EQ(metric(*client_, "farpage_client_late_verdicts_total"), 0);
  EXPECT_EQ(metric(*client_, "farpage_client_location_cache_bytes"),
            static_cast<double>(client_->location_bytes()));
  EXPECT_EQ(metric(*client_, "farpage_client_reachable"), 1);
}

TEST_F(ClientMetrics, PushesAreCountedAndStayWhenTheirLaneGoes) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  {
    PushLane lane = client_->open_push_lane({.pages = 4, .group_pages = 2}).value();
    const std::vector<PushedPage> requests = {
        {test_key(1), 0, 0}, {test_key(2), 0, 0}, {test_key(1), 0, 0}};
    std::vector<PageVerdict> verdicts(requests.size());
    lane.push(requests, verdicts, engine_.deadline(kMillisecond)).wait();
    EXPECT_EQ(metric(*client_, "farpage_client_ready_pages_total"), 2);
    EXPECT_EQ(metric(*client_, "farpage_client_ready_bytes_total"), 2 * kPageBytes);
    EXPECT_EQ(recompute(*client_, "miss"), 1);
    EXPECT_EQ(metric(*client_, "farpage_client_quarantined_places_total"), 0);
    cluster_.node_fabric().pause();
    lane.push(requests, verdicts, engine_.deadline(kMillisecond)).wait();
    cluster_.node_fabric().resume();
  }
  EXPECT_EQ(recompute(*client_, "stalled"), 3);
  EXPECT_EQ(metric(*client_, "farpage_client_push_requests_total"), 2);
  EXPECT_EQ(metric(*client_, "farpage_client_quarantined_places_total"), 3);
}

TEST_F(ClientMetrics, FetchTakesFromItsStartToItsLastVerdict) {
  struct Durations final : MetricVisitor {
    void family(std::string_view name, std::string_view, MetricKind) override { now = name; }
    void value(MetricLabels, double) override {}
    void histogram(MetricLabels, const DurationHistogram& durations) override {
      if (now == "farpage_client_fetch_seconds") sum_ns = durations.sum_ns();
    }
    std::string now;
    uint64_t sum_ns = 0;
  };
  const uint64_t before = cluster_.now_ns();
  ASSERT_EQ(engine_.fetch(test_key(1)).reason, Reason::kMiss);  // virtual time: exact
  Durations durations;
  client_->describe(durations);
  EXPECT_GT(durations.sum_ns, 0u);
  EXPECT_EQ(durations.sum_ns, cluster_.now_ns() - before);
}

TEST_F(ClientMetrics, WhatAClosedLaneHasCountedStays) {
  {
    Lane lane = client_->open_lane().value();
    EXPECT_FALSE(lane.contains(test_key(5), engine_.deadline()));
  }
  EXPECT_EQ(recompute(*client_, "miss"), 1);
  EXPECT_EQ(metric(*client_, "farpage_client_page_seconds{verdict=recompute}"), 1);
  run_for_a_lease();
  EXPECT_EQ(told().miss, 1u);
}

TEST_F(ClientMetrics, LostConnectionNeitherLosesNorDoublesWhatIsTold) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(engine_.fetch(test_key(9)).reason, Reason::kMiss);
  run_for_a_lease();
  ASSERT_EQ(told().miss, 5u);
  cluster_.cut_links();
  run_for(kMillisecond);  // until the client knows: what a renewal tells before that may be lost
  ASSERT_EQ(engine_.fetch(test_key(9)).reason, Reason::kMiss);  // under the lease
  run_for(5 * small_sim_node().lease_ms * kMillisecond);
  ASSERT_TRUE(client_->reachable());
  EXPECT_EQ(told().miss, 6u);
  ASSERT_EQ(engine_.fetch(test_key(9)).reason, Reason::kMiss);
  run_for_a_lease();
  EXPECT_EQ(told().miss, 7u);
}

TEST_F(ClientMetrics, NewRunOfTheNodeIsToldWhatTheOldOneWasNot) {
  ASSERT_EQ(engine_.fetch(test_key(9)).reason, Reason::kMiss);
  run_for_a_lease();
  cluster_.end_node(NodeEnd::kStopped);
  run_for_a_lease();
  ASSERT_EQ(engine_.fetch(test_key(9)).reason, Reason::kUnreachable);
  EXPECT_EQ(metric(*client_, "farpage_client_reachable"), 0);
  const PageKey key = test_key(9);
  const PutRequest request = {key, engine_.slice(0)};
  EXPECT_EQ(client_->put({&request, 1}, engine_.deadline()).wait()[0].code, Code::kUnavailable);
  EXPECT_EQ(metric(*client_, "farpage_client_puts_total{result=failed}"), 1);
  cluster_.start_node();
  run_for(kSecond);
  ASSERT_TRUE(client_->reachable());
  EXPECT_EQ(told().unreachable, 1u);
  EXPECT_EQ(told().miss, 0u);
}

// Over a real socket: the simulation's links take nothing along when they are closed.
TEST(ClientGoodbye, TellsWhatTheRenewalsDidNot) {
  NodeOptions options = Cluster::small_options();
  options.lease_ms = 600'000;  // no renewal but the first
  Cluster cluster(Path::kShm, options);
  const std::unique_ptr<Client> stays = cluster.connect();
  std::unique_ptr<Client> goes = cluster.connect();
  EXPECT_FALSE(goes->open_lane().value().contains(test_key(1), goes->clock().now_ns() + kSecond));
  goes.reset();
  const uint64_t deadline = stays->clock().now_ns() + 20 * kSecond;
  uint64_t told = 0;
  while (told == 0 && stays->clock().now_ns() < deadline) {
    const auto status = stays->node_status(deadline);
    ASSERT_TRUE(status.has_value());
    told = status->verdicts.miss;
  }
  EXPECT_EQ(told, 1u);
}

}  // namespace
}  // namespace farpage
