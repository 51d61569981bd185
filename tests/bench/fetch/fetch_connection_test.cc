#include "bench/fetch/fetch_connection.h"

#include <gtest/gtest.h>

#include "replay/page_content.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kPages = 60;

// Over three simulated nodes, two of which hold each page. How long it fetches is real time.
class FetchConnectionTest : public testing::Test {
 protected:
  static SimClusterOptions three_nodes() {
    SimClusterOptions options;
    options.nodes = 3;
    options.replicas = 2;
    options.node.pool_bytes = 2 * kPages * (kPageBytes + sizeof(PageHeader));
    options.node.lease_ms = 20'000;
    options.node.reuse_ms = 10'000;
    return options;
  }
  FetchConnectionTest() {
    cluster_.world().run_until(cluster_.now_ns() + 60 * kSecond);  // until puts open
    Engine engine(*client_, kPageBytes, 1);
    for (uint64_t number = 0; number < kPages; ++number) {
      keys_.push_back(test_key(number));
      EXPECT_EQ(engine.put(keys_.back(), number).code, Code::kOk);
    }
  }

  SimCluster cluster_{1, three_nodes()};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &faulty_).value();
  std::vector<PageKey> keys_;
};

// A read that has lost against its hedge may still write to where its page was to land.
TEST_F(FetchConnectionTest, FetchThatIsNotReleasedHoldsUpNoOther) {
  FetchBenchOptions options;
  options.page_bytes = kPageBytes;
  options.batch = 1;
  options.depth = 2;
  options.hedge = true;
  const auto connection = FetchConnection::open(*client_, options, keys_, 1).value();
  connection->warm_up(0, keys_.size());
  // As many as there are slots, each time: the lane may hedge one page in forty, and how many it
  // has hedged when the read is lost must not depend on real time.
  while (connection->totals().fetches < 1'000) connection->fetch_for(0);
  fault::FaultPlan plan;
  plan.of(FaultKind::kLost) = 1;
  plan.most = 1;
  faulty_.set_plan(plan);
  const uint64_t before = connection->totals().fetches;
  uint64_t after = 0;
  cluster_.world().after(5 * kMillisecond, [&] { after = connection->totals().fetches; });
  connection->fetch_for(0.5);
  EXPECT_EQ(faulty_.injected().of(FaultKind::kLost), 1u);
  EXPECT_GE(connection->stats().hedges_won, 1u);
  EXPECT_GE(after, before + 20);
  EXPECT_EQ(connection->totals().ready, connection->totals().fetches);
}

// They are counted apart, and cost no channel. Their fetches are not among the figures.
TEST_F(FetchConnectionTest, FetchesThatCannotBeInTimeAreCountedApart) {
  FetchBenchOptions options;
  options.page_bytes = kPageBytes;
  options.batch = 1;
  options.depth = 4;
  options.impossible_share = 0.25;
  // In virtual time much longer than a tenth of what a fetch takes here in real time. Before the
  // lane's first read: to one that knows a faster network a node so slow is a silent one, whose
  // path it ends for another replica.
  cluster_.set_network({.delay_min_ns = 50 * kMillisecond, .delay_max_ns = 50 * kMillisecond});
  const auto connection = FetchConnection::open(*client_, options, keys_, 1).value();
  connection->warm_up(0, keys_.size());
  while (connection->totals().impossible_fetches < 100) connection->fetch_for(0.01);
  const FetchConnection::Totals& totals = connection->totals();
  EXPECT_EQ(totals.impossible_ready, 0u);
  EXPECT_EQ(totals.ready, totals.fetches);
  EXPECT_EQ(totals.fetch_ns.count(), totals.fetches);
  EXPECT_EQ(connection->stats().channels_ended, 0u);
}

}  // namespace
}  // namespace farpage
