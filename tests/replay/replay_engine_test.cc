#include "replay/replay_engine.h"

#include <gtest/gtest.h>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kPages = 60;

// Every page twenty times, one after the other.
Trace pages_again_and_again() {
  Trace trace;
  for (uint64_t request = 0; request < 20 * kPages; ++request) {
    trace.requests.push_back({.hash_ids = {request % kPages}});
  }
  return trace;
}

// Over three simulated nodes, two of which hold each page.
class ReplayEngineTest : public testing::Test {
 protected:
  static SimClusterOptions three_nodes() {
    SimClusterOptions options;
    options.nodes = 3;
    options.replicas = 2;
    options.node.pool_bytes = 2 * kPages * (kPageBytes + sizeof(PageHeader));
    options.node.lease_ms = 2'000;
    options.node.reuse_ms = 100;
    return options;
  }

  ReplayResult replay(ReplayOptions options, double lost) {
    cluster_.world().run_until(cluster_.now_ns() + 10 * kSecond);  // until puts open
    fault::FaultPlan plan;
    plan.of(FaultKind::kLost) = lost;
    faulty_.set_plan(plan);
    options.page_bytes = kPageBytes;
    auto made = Replay::create(*client_, faulty_, trace_, options);
    EXPECT_TRUE(made.has_value());
    return made->run({});
  }

  const Trace trace_ = pages_again_and_again();
  SimCluster cluster_{1, three_nodes()};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &faulty_).value();
};

uint64_t slower(const ReplayResult& result) {
  return result.recompute[static_cast<size_t>(Reason::kSlower)];
}

// The read that it overtook may never land, and its frame is what the engine goes on with.
TEST_F(ReplayEngineTest, PageThatAHedgeBroughtIsTheEnginesAfterTheFetch) {
  ReplayOptions options;
  options.hedge = true;
  const ReplayResult result = replay(options, 0.02);
  EXPECT_GT(result.hedges_won, 0u);
  EXPECT_LE(result.hedges_won, result.hedges);
  EXPECT_EQ(result.wrong_bytes, 0u);
  EXPECT_GT(result.ready, 15 * kPages);
}

TEST_F(ReplayEngineTest, NothingIsHedgedUnlessItIsAskedFor) {
  const ReplayResult result = replay({}, 0.02);
  EXPECT_EQ(result.hedges, 0u);
  EXPECT_EQ(slower(result), 0u);
}

TEST_F(ReplayEngineTest, PageThatIsRecomputedSoonerIsNotFetched) {
  ReplayOptions options;
  options.prefill_tokens_per_s = 1'000'000'000;  // a page in 512 ns
  const ReplayResult result = replay(options, 0);
  EXPECT_GT(slower(result), 10 * kPages);
  EXPECT_GT(result.ready, 0u) << "before enough was known";
  EXPECT_EQ(result.ready + result.recomputed(), result.fetched);
}

TEST_F(ReplayEngineTest, PageThatComesSoonerThanItsRecomputeIsFetched) {
  ReplayOptions options;
  options.prefill_tokens_per_s = 10'000;  // a page in 51.2 ms
  const ReplayResult result = replay(options, 0);
  EXPECT_EQ(slower(result), 0u);
  EXPECT_EQ(result.ready, 19 * kPages);
}

TEST(ReplayOptions, RateBeyondAllMeasureIsNotTakenForUnknown) {
  ReplayOptions options;
  EXPECT_EQ(options.fetch_options(kTokensPerBlock).recompute_ns, 0u);
  options.prefill_tokens_per_s = UINT64_MAX;
  EXPECT_EQ(options.fetch_options(kTokensPerBlock).recompute_ns, 1u);
  options.prefill_tokens_per_s = 512;
  EXPECT_EQ(options.fetch_options(kTokensPerBlock).recompute_ns, kSecond);
}

}  // namespace
}  // namespace farpage
