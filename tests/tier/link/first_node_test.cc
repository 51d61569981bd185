#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tests/tier/link/fleet_links.h"
#include "tier/link/link_use.h"

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

// Whose links rest after a second.
class LinkRest : public FirstNode {
 protected:
  LinkRest() {
    rest_ms_ = 1'000;
    make_list(2);
    EXPECT_TRUE(link_->connect());
    use_all();
  }
  bool all_rest() {
    return std::ranges::all_of(link_->links(), [](const auto& link) { return link->is_unused(); });
  }
};

TEST_F(LinkRest, WhatIsUnderWayKeepsALink) {
  std::optional<LinkUse> use(std::in_place, link_to(1));
  run_for(100 * kSecond);
  EXPECT_FALSE(link_to(1)->is_unused());
  EXPECT_TRUE(link_to(2)->is_unused());
  use.reset();
  run_for(2 * kSecond);
  EXPECT_TRUE(all_rest());
}

TEST_F(LinkRest, ARefusalOfBeforeIsForgotten) {
  run_for(3 * kSecond);
  ASSERT_TRUE(all_rest());
  const EpochTag list = node(1).membership;
  for (const NodeId id : {1, 2}) node(id).membership.identity = 7;
  use_all();
  run_for(kSecond);
  for (const auto& link : link_->links()) EXPECT_TRUE(link->refused());
  for (const NodeId id : {1, 2}) node(id).membership = list;
  run_for(kSecond);
  for (const auto& link : link_->links()) EXPECT_FALSE(link->refused() || link->error());
  run_for(3 * kSecond);
  ASSERT_TRUE(all_rest());
  link_->reach_one(world_.now_ns() + kSecond);
  EXPECT_FALSE(all_rest());
  EXPECT_TRUE(link_->reachable());
}

TEST_F(LinkRest, ALinkThatIsStoppedComesNoMore) {
  run_for(3 * kSecond);
  node(1).answers = false;
  const auto link = link_to(1);
  link->start();
  ASSERT_TRUE(link->is_coming());
  link_->stop();
  EXPECT_FALSE(link->is_coming());
}

TEST_F(LinkRest, AClientThatReachedNobodyIsUnreachable) {
  run_for(3 * kSecond);
  ASSERT_TRUE(link_->reachable());
  for (const NodeId id : {1, 2}) node(id).answers = false;
  use_all();
  run_for(100 * kSecond);
  EXPECT_FALSE(link_->reachable());
}

}  // namespace
}  // namespace farpage
