// Nodes that leave their pools to their next runs, in virtual time.
#include <gtest/gtest.h>

#include "tests/node/fleet/three_nodes.h"

namespace farpage {
namespace {

SimClusterOptions kept(SimClusterOptions options) {
  options.keep_pools = true;
  return options;
}

void restart(SimCluster& cluster, RawClient& client, size_t node, NodeEnd end = NodeEnd::kStopped) {
  cluster.end_node(end, node);
  cluster.start_node(node);
  client.forget(node);
}

TEST(KeptPool, ANodeAloneServesItsPagesAgain) {
  for (const NodeEnd end : {NodeEnd::kStopped, NodeEnd::kKilled}) {
    SimCluster cluster(1, kept({}));
    RawClient client(cluster);
    for (uint64_t number = 0; number < 8; ++number) {
      ASSERT_EQ(client.put(number, 1).code, Code::kOk);
    }
    ASSERT_EQ(client.put(3, 2).code, Code::kOk);
    restart(cluster, client, 0, end);
    for (uint64_t number = 0; number < 8; ++number) {
      EXPECT_TRUE(client.holds(0, number, number == 3 ? 2 : 1)) << number;
    }
    // And goes on: what is put next is newer.
    client.run_for(kSecond);
    EXPECT_EQ(client.put(3, 3).code, Code::kOk);
    EXPECT_TRUE(client.holds(0, 3, 3));
    restart(cluster, client, 0, end);
    EXPECT_TRUE(client.holds(0, 3, 3)) << "twice";
  }
}

TEST(KeptPool, PowerThatIsLostTakesThePagesWithIt) {
  SimCluster cluster(1, kept({}));
  RawClient client(cluster);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  restart(cluster, client, 0, NodeEnd::kPowerLost);
  EXPECT_FALSE(client.read(0, 1));
}

TEST(KeptPool, ANodeWhoseStateFileIsGoneBeginsEmpty) {
  SimCluster cluster(1, kept({}));
  RawClient client(cluster);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  cluster.end_node(NodeEnd::kStopped);
  cluster.lose_state_file(0);
  cluster.start_node();
  client.forget(0);
  EXPECT_FALSE(client.read(0, 1)) << "its versions could be given out again";
}

// Of a list: what the other replica holds is served again without being read over the network.
TEST(KeptPool, AMemberServesWhatAnotherOneConfirms) {
  SimCluster cluster(1, kept(three_nodes()));
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  ASSERT_TRUE(client.holds(1, number, 1));
  restart(cluster, client, 1);
  EXPECT_FALSE(client.read(1, number)) << "nobody has confirmed it";
  EXPECT_TRUE(client.wait_for([&] { return client.holds(1, number, 1); }));
  EXPECT_EQ(client.status(1).fleet.filled, 0u);
}

// Three members of a register, two of which hold two pages; one of those is left out for a while.
class KeptMember : public testing::Test {
 protected:
  KeptMember() {
    EXPECT_TRUE(has_members(3));
    settle(client_);
    changed_ = client_.number_with({0, 1});
    untouched_ = client_.number_with({0, 1}, changed_ + 1);
    for (const uint64_t number : {changed_, untouched_}) {
      EXPECT_EQ(client_.put(number, 1).code, Code::kOk);
    }
    cluster_.end_node(NodeEnd::kKilled, 1);
    EXPECT_TRUE(has_members(2));
  }
  void come_back() {
    cluster_.start_node(1);
    client_.forget(1);
    ASSERT_TRUE(has_members(3));
    ASSERT_TRUE(client_.wait_for([&] { return client_.holds(1, untouched_, 1); }));
  }

 private:
  static SimClusterOptions of_register() {
    SimClusterOptions options = kept(three_nodes());
    options.uses_register = true;
    return options;
  }
  bool has_members(size_t count) {
    return client_.wait_for([&] {
      const RegisteredEpoch& current = cluster_.epochs()->current();
      return current.all_confirmed() && current.epoch.members.size() == count;
    });
  }

 protected:
  SimCluster cluster_{1, of_register()};
  RawClient client_{cluster_};
  uint64_t changed_ = 0;
  uint64_t untouched_ = 0;
};

TEST_F(KeptMember, DoesNotServeWhatWasReplacedMeanwhile) {
  ASSERT_TRUE(client_.wait_for([&] { return client_.put(changed_, 2).code == Code::kOk; }));
  come_back();
  EXPECT_TRUE(client_.wait_for([&] { return client_.holds(1, changed_, 2); }));
  EXPECT_EQ(client_.status(1).fleet.filled, 1u) << "the one that was replaced";
}

TEST_F(KeptMember, DoesNotServeWhatWasRemovedMeanwhile) {
  const RemoveRequest request = {{RawClient::key(changed_)}, client_.tag(), kSecond};
  EXPECT_EQ(client_.ask<RemoveReply>(0, request).removed, 1u);
  come_back();
  ASSERT_TRUE(client_.wait_for([&] { return client_.status(1).fleet.to_fill == 0; }));
  client_.run_for(kSecond);
  for (size_t node = 0; node < 3; ++node) EXPECT_FALSE(client_.read(node, changed_)) << node;
  EXPECT_EQ(client_.status(1).fleet.filled, 0u);
}

}  // namespace
}  // namespace farpage
