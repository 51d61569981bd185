// What a member asks for when epochs follow each other, in virtual time.
#include <gtest/gtest.h>

#include "base/random.h"
#include "sim/fault/fault_fabric.h"
#include "tests/node/raw_client.h"

namespace farpage {
namespace {

using fault::FaultFabric;
using fault::FaultKind;
using fault::FaultPlan;

SimClusterOptions registered_nodes(size_t nodes) {
  SimClusterOptions options;
  options.nodes = nodes;
  options.replicas = 2;
  options.uses_register = true;
  return options;
}

size_t members(SimCluster& cluster) {
  return cluster.epochs()->current().epoch.members.size();
}

// The second epoch comes before the fills of the first have ended, after them, or in the middle of
// one. A member returns when the others have filled themselves: what they kill for it raises
// floors, which keep other pages of the same bucket away from fills that go on.
TEST(FillsAcrossEpochs, EndWithEveryPageThatIsLeftAtAllItsHolders) {
  constexpr size_t kNodes = 5;
  constexpr uint64_t kKeys = 400;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SimClusterOptions options = registered_nodes(kNodes);
    options.node.pool_bytes = 8192 * (512 + sizeof(PageHeader));
    options.node.fill_bytes_per_s = 64 * kKiB;  // a page in 4 ms
    SimCluster cluster(seed, options);
    RawClient client(cluster);
    ASSERT_TRUE(client.wait_for([&] { return cluster.epochs()->current().all_confirmed(); }));
    client.run_for(2 * kSecond);
    for (uint64_t number = 0; number < kKeys; ++number) {
      ASSERT_EQ(client.put(number, 1).code, Code::kOk);
    }
    client.run_for(kSecond);
    const auto filled = [&](const std::vector<size_t>& nodes) {
      ASSERT_TRUE(client.wait_for([&] { return cluster.epochs()->current().all_confirmed(); }));
      for (const size_t node : nodes) {
        ASSERT_TRUE(client.wait_for([&] { return client.status(node).fleet.to_fill == 0; }))
            << node;
      }
    };
    const auto run_for_some = [&] { client.run_for(random.below(600) * kMillisecond); };
    cluster.end_node(NodeEnd::kPowerLost, 3);
    run_for_some();
    cluster.end_node(NodeEnd::kPowerLost, 4);
    ASSERT_TRUE(client.wait_for([&] { return members(cluster) == 3; }));
    run_for_some();
    filled({0, 1, 2});
    cluster.start_node(3);
    ASSERT_TRUE(client.wait_for([&] { return members(cluster) == 4; }));
    filled({0, 1, 2, 3});
    size_t left = 0;
    for (uint64_t number = 0; number < kKeys; ++number) {
      const auto set = client.set_of(RawClient::key(number));
      const auto is_live = [&](size_t node) { return client.is_live(node, number); };
      left += std::ranges::any_of(set, is_live) ? 1 : 0;
      EXPECT_EQ(std::ranges::any_of(set, is_live), std::ranges::all_of(set, is_live)) << number;
    }
    EXPECT_GT(left, kKeys / 2);
  }
}

// Four nodes; what node 1 reads may fail.
class NextEpoch : public testing::Test {
 protected:
  NextEpoch() : cluster_(1, options()), client_(cluster_) {
    EXPECT_TRUE(client_.wait_for([&] { return members(cluster_) == 4; }));
    client_.run_for(3 * kSecond);
  }
  SimClusterOptions options() {
    SimClusterOptions options = registered_nodes(4);
    options.wrap_node = [this](size_t node, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
      auto fabric = std::make_unique<FaultFabric>(own, own.runtime().clock(), 1);
      if (node == 1) (faulty_ = fabric.get())->set_plan(plan_);
      return fabric;
    };
    return options;
  }
  void fail(FaultKind kind) {
    plan_ = {};
    plan_.of(kind) = 1;
    plan_.most = kNever;
    faulty_->set_plan(plan_);
  }
  void fail_no_more() { faulty_->set_plan(plan_ = {}); }
  void end_node_3() {
    cluster_.end_node(NodeEnd::kPowerLost, 3);
    ASSERT_TRUE(client_.wait_for([&] { return members(cluster_) == 3; }));
    client_.run_for(3 * kSecond);
    ASSERT_TRUE(cluster_.epochs()->current().all_confirmed());
    ASSERT_EQ(client_.status(1).fleet.to_fill, 0u);
  }

  FaultPlan plan_;
  FaultFabric* faulty_ = nullptr;  // of node 1's newest run
  SimCluster cluster_;
  RawClient client_;
};

TEST_F(NextEpoch, PageThatWasGivenUpIsAskedForAgain) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  cluster_.end_node(NodeEnd::kPowerLost, 1);
  ASSERT_TRUE(client_.wait_for([&] { return members(cluster_) == 3; }));
  fail(FaultKind::kFlippedPayload);
  cluster_.start_node(1);
  ASSERT_TRUE(client_.wait_for([&] { return members(cluster_) == 4; }));
  client_.run_for(3 * kSecond);
  ASSERT_EQ(client_.status(1).fleet.to_fill, 0u) << "it has given up";
  ASSERT_FALSE(client_.is_live(1, number));
  fail_no_more();
  client_.run_for(kSecond);
  ASSERT_FALSE(client_.is_live(1, number));
  end_node_3();
  EXPECT_TRUE(client_.holds(1, number, 1));
}

// Its second put is at node 0 alone, and no member has missed an acknowledged page.
TEST_F(NextEpoch, MemberThatIsWholeIsNotToldAgainOfWhatItHeld) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFailed);
  EXPECT_EQ(client_.put(number, 2, 10 * kMillisecond).code, Code::kTimeout);
  client_.run_for(4 * kSecond);  // its reads end
  fail_no_more();
  client_.run_for(4 * kSecond);
  end_node_3();
  ASSERT_TRUE(client_.holds(0, number, 2));
  EXPECT_TRUE(client_.holds(1, number, 1));
  client_.ask<ReportReply>(1, ReportRequest{{RawClient::key(number)}});
  client_.run_for(50 * kMillisecond);
  EXPECT_TRUE(client_.holds(1, number, 2)) << "who reads there reports it";
}

// The same epoch goes on; the put may be one of many that the link has lost.
TEST_F(NextEpoch, MemberWhoseLinkIsNewIsToldOfEverything) {
  end_node_3();
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFailed);
  EXPECT_EQ(client_.put(number, 2, 10 * kMillisecond).code, Code::kTimeout);
  client_.run_for(4 * kSecond);
  fail_no_more();
  client_.run_for(4 * kSecond);
  ASSERT_TRUE(client_.holds(1, number, 1));
  const uint64_t epoch = client_.tag().number;
  cluster_.part(cluster_.node_host(0), cluster_.node_host(1));
  client_.run_for(100 * kMillisecond);
  cluster_.heal_all();
  EXPECT_TRUE(client_.wait_for([&] { return client_.holds(1, number, 2); }));
  EXPECT_EQ(client_.tag().number, epoch);
}

// Two members look for 49 ms each, at 4,096 slots a millisecond.
TEST(LongWalk, IsAskedAboutNowAndThen) {
  constexpr uint64_t kSlots = 200'000;
  SimClusterOptions options;
  options.nodes = 3;
  options.replicas = 2;
  options.node.page_bytes = 256;
  options.node.pool_bytes = kSlots * (256 + sizeof(PageHeader));
  SimCluster cluster(1, options);
  RawClient client(cluster);
  client.run_for(kSecond);
  const uint64_t numbers[] = {client.number_with({0, 1}), client.number_with({2, 1})};
  for (const uint64_t number : numbers) ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.end_node(NodeEnd::kPowerLost, 1);
  client.run_for(50 * kMillisecond);
  cluster.start_node(1);
  ASSERT_TRUE(client.wait_for([&] { return client.status(1).fleet.filled == 2; }));
  const uint64_t began_ns = cluster.now_ns();
  const uint64_t before = cluster.control_messages();
  EXPECT_GT(client.status(1).fleet.to_fill, 0u) << "the members still look";
  ASSERT_TRUE(client.wait_for([&] { return client.status(1).fleet.to_fill == 0; }));
  EXPECT_GT(cluster.now_ns() - began_ns, 20 * kMillisecond);
  EXPECT_LT(cluster.control_messages() - before, 300u) << "and the renewals";
}

}  // namespace
}  // namespace farpage
