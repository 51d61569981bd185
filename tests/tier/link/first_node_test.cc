#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/tier/link/fleet_links.h"

namespace farpage {
namespace {

// How a client of a list comes to its first node.
class FirstNode : public FleetLinks {
 protected:
  // So many members, each of which answers.
  void make_list(NodeId members) {
    std::vector<NodeId> all;
    for (NodeId id = 1; id <= members; ++id) all.push_back(id);
    const Epoch list = epoch(1, all, false);
    for (const NodeId id : all) node(id).membership = {1, list.identity()};
    make(list, false);
  }
  uint64_t dialled() const {
    return static_cast<uint64_t>(
        std::ranges::count_if(nodes_, [](const auto& each) { return each.second->dials > 0; }));
  }
};

TEST_F(FirstNode, ConnectDialsNoMoreThanItTakes) {
  make_list(100);
  ASSERT_TRUE(link_->connect());
  EXPECT_EQ(dialled(), 1u);
  run_for(10 * kSecond);
  EXPECT_EQ(dialled(), 1u);
}

TEST_F(FirstNode, ClientsBeginWithDifferentNodes) {
  std::set<NodeId> first;
  for (int client = 0; client < 32; ++client) {
    if (link_ != nullptr) link_->stop();
    run_for(kSecond);
    link_.reset();
    nodes_.clear();
    make_list(100);
    ASSERT_TRUE(link_->connect());
    for (const auto& [id, each] : nodes_) {
      if (each->dials > 0) first.insert(id);
    }
  }
  EXPECT_GE(first.size(), 20u);
}

// A rack of them, say.
TEST_F(FirstNode, ConnectFindsTheOneThatAnswersAmongManySilentOnes) {
  make_list(161);
  for (NodeId id = 2; id <= 161; ++id) node(id).answers = false;
  const uint64_t began = world_.now_ns();
  ASSERT_TRUE(link_->connect());
  EXPECT_LE(world_.now_ns() - began, kSecond);
}

TEST_F(FirstNode, ConnectTriesTheNextAtOnceWhereOneRefuses) {
  make_list(100);
  const EpochTag list = node(42).membership;
  for (auto& [id, each] : nodes_) each->membership = {1, list.identity + 1};
  node(42).membership = list;
  const uint64_t began = world_.now_ns();
  ASSERT_TRUE(link_->connect());
  EXPECT_LE(world_.now_ns() - began, 10 * kMillisecond);
}

TEST_F(FirstNode, ConnectSaysAtOnceThatAllRefuse) {
  make_list(100);
  for (auto& [id, each] : nodes_) each->membership.identity = 7;
  const uint64_t began = world_.now_ns();
  const auto connected = link_->connect();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::kInvalid);
  EXPECT_NE(connected.error().message.find("another list"), std::string::npos);
  EXPECT_LE(world_.now_ns() - began, 10 * kMillisecond);
}

TEST_F(FirstNode, ConnectSaysThatNobodyAnswers) {
  make_list(3);
  for (auto& [id, each] : nodes_) each->answers = false;
  const auto connected = link_->connect();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::kTimeout);
}

}  // namespace
}  // namespace farpage
