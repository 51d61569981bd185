#include "sim/sim_cluster.h"

#include <gtest/gtest.h>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kSoonNs = 5 * kMillisecond;

class SimClusterTest : public testing::Test {
 protected:
  explicit SimClusterTest(const SimClusterOptions& options = {})
      : cluster_(1, options),
        engine_(std::make_unique<SimEngine>(cluster_.world(), cluster_.connect().value(), truth_,
                                            findings_, kPageBytes)) {}
  ~SimClusterTest() override {
    for (const Finding& finding : findings_.all()) ADD_FAILURE() << finding;
  }

  PageVerdict fetch(uint64_t key) { return engine_->fetch_now(key, kSoonNs); }
  Code put(uint64_t key) { return engine_->put_now(key, kSoonNs).code; }

  SimCluster cluster_;
  Truth truth_;
  Findings findings_;
  std::unique_ptr<SimEngine> engine_;
};

TEST_F(SimClusterTest, NothingPassesBetweenPartedHostsUntilTheyAreHealed) {
  EXPECT_EQ(put(0), Code::kOk);
  EXPECT_EQ(fetch(0).verdict, Verdict::kReady);
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  engine_->start_fetch({0}, kSoonNs, false);
  cluster_.world().run_until(cluster_.now_ns() + kSoonNs);
  engine_->observe();
  EXPECT_EQ(engine_->counts().recompute, 1u);
  EXPECT_EQ(put(0), Code::kTimeout);
  cluster_.heal_all();
  cluster_.world().run_until(cluster_.now_ns() + kSecond);
  EXPECT_EQ(put(0), Code::kOk);
  EXPECT_EQ(fetch(0).verdict, Verdict::kReady);
}

TEST_F(SimClusterTest, AMessageToAPartedHostArrivesOnceItIsHealed) {
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  const PageKey key = sim_key(0);
  Remove remove = engine_->client().remove({&key, 1}, cluster_.now_ns() + kSecond);
  cluster_.world().run_until(cluster_.now_ns() + kSoonNs);
  EXPECT_FALSE(remove.done());
  cluster_.heal_all();
  cluster_.world().run_until(cluster_.now_ns() + kSoonNs);
  EXPECT_TRUE(remove.done());
}

TEST_F(SimClusterTest, LinksOfOnePairAreCutAndNoOthers) {
  cluster_.cut_links(cluster_.client_host(0), cluster_.register_host());
  const PageKey key = sim_key(0);
  Remove remove = engine_->client().remove({&key, 1}, cluster_.now_ns() + kSecond);
  cluster_.world().run_until(cluster_.now_ns() + kSoonNs);
  EXPECT_TRUE(remove.wait());
  cluster_.cut_links(cluster_.client_host(0), cluster_.node_host(0));
  remove = engine_->client().remove({&key, 1}, cluster_.now_ns() + kSoonNs);
  EXPECT_FALSE(remove.wait());
}

// The second is to hear of the first one's end, and is no more.
TEST(SimClusterOfTwo, NodesMayEndTogether) {
  SimClusterOptions options;
  options.nodes = 2;
  options.replicas = 2;
  SimCluster cluster(1, options);
  for (int round = 0; round < 10; ++round) {
    cluster.world().run_until(cluster.now_ns() + 100 * kMillisecond);
    cluster.end_node(NodeEnd::kKilled, 0);
    cluster.end_node(NodeEnd::kStopped, 1);
    cluster.world().run_until(cluster.now_ns() + kSoonNs);
    cluster.start_node(0);
    cluster.start_node(1);
  }
  Truth truth;
  Findings findings;
  SimEngine engine(cluster.world(), cluster.connect().value(), truth, findings, kPageBytes);
  EXPECT_EQ(engine.put_now(0, kSecond).code, Code::kOk) << "on both";
}

struct Wrapped {
  std::vector<fault::FaultFabric*> wrapped;

  SimClusterOptions options() {
    SimClusterOptions options;
    options.wrap_node = [this](size_t, sim::SimFabric& own) {
      auto faulty = std::make_unique<fault::FaultFabric>(own, own.runtime().clock(), 1);
      wrapped.push_back(faulty.get());
      return faulty;
    };
    return options;
  }
};

class WrappedNodes : protected Wrapped, public SimClusterTest {
 protected:
  WrappedNodes() : SimClusterTest(options()) {}
};

TEST_F(WrappedNodes, EveryRunOfANodeHasAFabricOfItsOwn) {
  ASSERT_EQ(wrapped.size(), 1u);
  EXPECT_EQ(&cluster_.wrapped_fabric(), wrapped[0]);
  EXPECT_TRUE(wrapped[0]->flip_at_rest());
  cluster_.end_node(NodeEnd::kKilled);
  cluster_.start_node();
  ASSERT_EQ(wrapped.size(), 2u);
  EXPECT_EQ(wrapped[0]->injected().of(fault::FaultKind::kFlippedAtRest), 1u) << "still there";
}

}  // namespace
}  // namespace farpage
