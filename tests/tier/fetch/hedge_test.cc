#include <cstdio>

#include "tests/tier/fleet.h"

namespace farpage {
namespace {

// Reads of one node of three take twenty times as long, one in a hundred of its own.
class SlowNode : public FleetTest {
 protected:
  static constexpr uint64_t kKeys = 60;
  static constexpr uint64_t kUsual = 10 * kMicrosecond;

  static SimClusterOptions steady() {
    SimClusterOptions options = three_nodes();
    options.node.lease_ms = 2'000;
    options.node.reuse_ms = 100;
    options.network.delay_min_ns = kUsual / 3;
    options.network.delay_max_ns = kUsual / 3;
    return options;
  }
  explicit SlowNode(const SimClusterOptions& options = steady()) : FleetTest(options) {
    for (uint64_t number = 0; number < kKeys; ++number) {
      EXPECT_EQ(engine().put(test_key(number), number).code, Code::kOk);
    }
  }

  // So many fetches of one page, one after the other. One in a hundred of those whose primary is
  // node 0 meets a network that is slow as long as that read is being posted.
  std::vector<uint64_t> fetch(uint64_t count, const FetchOptions& options) {
    std::vector<uint64_t> took;
    uint64_t of_slow = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const PageKey key = test_key(i % kKeys);
      const bool slow = nodes_of(key)[0] == 0 && ++of_slow % 100 == 0;
      set_delay(slow ? 20 * kUsual : kUsual);
      const PageRequest request = {key, 0, engine().slice(0)};
      PageVerdict verdict;
      Fetch fetch = engine().lane().fetch({&request, 1}, {&verdict, 1}, now() + kSecond, options);
      set_delay(kUsual);
      drive([&] { return fetch.done(); });
      EXPECT_EQ(verdict.verdict, Verdict::kReady);
      took.push_back(verdict.took_ns);
      std::vector<std::byte> page(kPageBytes);
      fill_page(page, key, i % kKeys);
      EXPECT_TRUE(std::equal(page.begin(), page.end(), verdict.landed));
      // A read that lost against its hedge owns the destination until it has ended (rule 4).
      EXPECT_EQ(verdict.place == Place::kHeld, !fetch.released());
      drive([&] { return fetch.released(); });
      EXPECT_EQ(verdict.place, Place::kReleased);
    }
    return took;
  }
  void set_delay(uint64_t read_ns) {
    sim::SimOptions network = steady().network;
    network.delay_min_ns = network.delay_max_ns = read_ns / 3;
    network.reorder = 1;
    cluster_.client_fabric(0).set_options(network);
  }
  template <typename Ready>
  void drive(const Ready& ready) {
    for (engine().lane().progress(); !ready(); engine().lane().progress()) {
      run_for(kMicrosecond);
    }
  }
};

TEST_F(SlowNode, HedgesCutTheTailAndStayFew) {
  constexpr uint64_t kFetches = 12'000;
  fetch(kKeys * 20, {});
  const std::vector<uint64_t> unhedged = fetch(kFetches, {});
  const LaneStats before = engine().lane().stats();
  const std::vector<uint64_t> hedged = fetch(kFetches, {.hedge = true});
  const LaneStats after = engine().lane().stats();
  const uint64_t slow = quantile(unhedged, 0.999);
  const uint64_t fast = quantile(hedged, 0.999);
  const double extra = static_cast<double>(after.operations - before.operations) / kFetches - 1;
  std::printf(
      "p99.9 unhedged %lu ns, hedged %lu ns: ratio %.3f; hedges %lu, won %lu; extra reads "
      "%.2f%%\n",
      slow, fast, static_cast<double>(fast) / static_cast<double>(slow),
      after.hedges - before.hedges, after.hedges_won - before.hedges_won, 100 * extra);
  EXPECT_GE(slow, 15 * kUsual);  // as it was meant
  EXPECT_LE(static_cast<double>(fast), 0.3 * static_cast<double>(slow));
  EXPECT_LT(extra, 0.03);
  EXPECT_GT(after.hedges_won, before.hedges_won);
}

TEST_F(SlowNode, WhoDoesNotAskForHedgesGetsNone) {
  fetch(kKeys * 40, {});
  EXPECT_EQ(engine().lane().stats().hedges, 0u);
}

// The hedge lands elsewhere, stays there while the Fetch does, and its place is used again.
TEST_F(SlowNode, PlacesOfHedgesComeBack) {
  fetch(kKeys * 40, {.hedge = true});
  for (int round = 0; round < 15; ++round) {
    const uint64_t won = engine().lane().stats().hedges_won;
    fetch(kKeys * 20, {.hedge = true});  // credit, and slow reads among them
    EXPECT_GE(engine().lane().stats().hedges_won, won);
  }
  EXPECT_GT(engine().lane().stats().hedges_won, 2 * ClientOptions().hedge_places);
}

// Both have ended before anybody looks: whichever is taken first, the other one's end is its own.
TEST_F(SlowNode, AReadAndItsHedgeThatEndTogetherAreOnePage) {
  fetch(kKeys * 40, {.hedge = true});  // latencies are known, and there is credit
  const PageKey key = [&] {
    for (uint64_t number = 0;; ++number) {
      if (nodes_of(test_key(number))[0] == 0) return test_key(number);
    }
  }();
  Lane& lane = engine().lane();
  for (uint64_t round = 0; round < 2 * ClientOptions().hedge_places; ++round) {
    SCOPED_TRACE(round);
    fetch(kKeys * 10, {.hedge = true});  // credit, and slow reads stay few
    const PageRequest request = {key, 0, engine().slice(0)};
    PageVerdict verdict;
    const LaneStats before = lane.stats();
    set_delay(20 * kUsual);
    Fetch fetch = lane.fetch({&request, 1}, {&verdict, 1}, now() + kSecond, {.hedge = true});
    set_delay(kUsual);
    for (int step = 0; step < 100 && lane.stats().hedges == before.hedges; ++step) {
      run_for(2 * kMicrosecond);
      lane.progress();
    }
    ASSERT_EQ(lane.stats().hedges, before.hedges + 1);
    ASSERT_FALSE(fetch.done());
    run_for(kMillisecond);  // both end
    lane.progress();
    ASSERT_TRUE(fetch.released());
    EXPECT_EQ(verdict.verdict, Verdict::kReady);
    EXPECT_EQ(lane.stats().pages_ready, before.pages_ready + 1);
  }
  // No place of the window is lost.
  std::vector<PageRequest> requests(Lane::kWindow, PageRequest{key, 0, {}});
  std::vector<PageVerdict> verdicts(requests.size());
  const uint64_t posted = lane.stats().operations;
  Fetch all = lane.fetch(requests, verdicts, now() + kMillisecond);
  // The rest is for those who have little time.
  EXPECT_EQ(lane.stats().operations - posted, Lane::kWindow - Lane::kWindow / 4);
  drive([&] { return all.done(); });
}

class SlowNodeOfTwo : public SlowNode {
 protected:
  SlowNodeOfTwo() : SlowNode(registered()) {}
  static SimClusterOptions registered() {
    SimClusterOptions options = steady();
    options.uses_register = true;
    options.nodes = 2;
    return options;
  }
  void wait_for_members(size_t count) {
    ASSERT_TRUE(cluster_.world().wait_until(now() + 20 * kSecond, [&] {
      return epoch().members.size() == count && cluster_.epochs()->current().all_confirmed();
    }));
    run_for(5 * kSecond);
  }
};

TEST_F(SlowNodeOfTwo, LaneThatWasOpenedWhileThereWasOneReplicaHedgesLater) {
  cluster_.end_node(NodeEnd::kStopped, 1);
  wait_for_members(1);
  engine_.emplace(*client_, kPageBytes, 64);
  cluster_.start_node(1);
  wait_for_members(2);
  fetch(kKeys * 40, {.hedge = true});
  EXPECT_GT(engine().lane().stats().hedges, 0u);
}

TEST_F(SlowNode, PageThatWouldComeLaterThanItsRecomputeIsRecomputedAtOnce) {
  fetch(kKeys * 20, {});
  const PageRequest request = {test_key(1), 0, engine().slice(0)};
  PageVerdict verdict;
  const auto fetch_with = [&](uint64_t recompute_ns) {
    const uint64_t before = now();
    engine()
        .lane()
        .fetch({&request, 1}, {&verdict, 1}, now() + kSecond, {.recompute_ns = recompute_ns})
        .wait();
    return now() - before;
  };
  fetch_with(100 * kUsual);
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(fetch_with(kUsual / 4), 0u);
  EXPECT_EQ(verdict.reason, Reason::kSlower);
  EXPECT_EQ(verdict.attempts, 0);
  int read = 0;  // now and then one is read, to see whether that still holds
  for (int i = 0; i < 200; ++i) {
    fetch_with(kUsual / 4);
    read += verdict.verdict == Verdict::kReady;
  }
  EXPECT_GE(read, 2);
  EXPECT_LE(read, 4);
}

TEST_F(FleetTest, NothingIsRecomputedEarlyBeforeEnoughIsKnown) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  const PageRequest request = {key, 0, engine().slice(0)};
  PageVerdict verdict;
  engine()
      .lane()
      .fetch({&request, 1}, {&verdict, 1}, engine().deadline(), {.recompute_ns = 1})
      .wait();
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
}

}  // namespace
}  // namespace farpage
