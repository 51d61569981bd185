// What a member lacks, and how it comes by it when its reads of the others fail, in virtual time.
#include <gtest/gtest.h>

#include "tests/node/three_nodes.h"
#include "transport/fault/fault_fabric.h"

namespace farpage {
namespace {

using fault::FaultFabric;
using fault::FaultKind;
using fault::FaultPlan;

// Three nodes, and faults in what node 1 reads.
class Filling : public testing::Test {
 protected:
  Filling() : cluster_(1, options()), client_(cluster_) { settle(client_); }

  SimClusterOptions options() {
    SimClusterOptions options = three_nodes();
    options.wrap_node = [this](size_t node, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
      auto fabric = std::make_unique<FaultFabric>(own, own.runtime().clock(), 1);
      if (node == 1) {
        faulty_ = fabric.get();
        faulty_->set_plan(plan_);
      }
      return fabric;
    };
    return options;
  }
  // Of what node 1 posts from now on, in this run and those that follow.
  void fail(FaultKind kind, uint64_t count) {
    plan_ = {};
    plan_.of(kind) = 1;
    plan_.most = count;
    faulty_->set_plan(plan_);
  }
  void restart_node_1() {
    cluster_.end_node(NodeEnd::kPowerLost, 1);
    client_.run_for(50 * kMillisecond);
    cluster_.start_node(1);
  }
  FleetStatus status() { return client_.status(1).fleet; }

  FaultPlan plan_;
  FaultFabric* faulty_ = nullptr;  // of node 1's run that there is now
  SimCluster cluster_;
  RawClient client_;
};

TEST_F(Filling, PageThatIsFlippedInFlightIsAskedForAgain) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFlippedPayload, 3);
  restart_node_1();
  const uint64_t until = cluster_.now_ns() + kSecond;
  for (FleetStatus now = status(); now.filled == 0 && cluster_.now_ns() < until; now = status()) {
    const bool began = faulty_->injected().of(FaultKind::kFlippedPayload) > 0;
    EXPECT_TRUE(now.to_fill == 1 || !began);
    client_.run_for(10 * kMicrosecond);
  }
  EXPECT_TRUE(client_.holds(1, number, 1));
  EXPECT_EQ(faulty_->injected().of(FaultKind::kFlippedPayload), 3u);
  EXPECT_EQ(status().to_fill, 0u);
  EXPECT_EQ(status().repaired, 0u);
}

TEST_F(Filling, PageThatIsNotWholeIsTriedAFewTimesAndNoMore) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFlippedPayload, kNever);
  restart_node_1();
  client_.run_for(kSecond);
  const uint64_t reads = faulty_->injected().of(FaultKind::kFlippedPayload);
  EXPECT_GT(reads, 1u);
  EXPECT_LE(reads, 20u) << "every new link begins anew";
  client_.run_for(kSecond);
  EXPECT_EQ(faulty_->injected().of(FaultKind::kFlippedPayload), reads);
  EXPECT_EQ(status().to_fill, 0u);
  EXPECT_FALSE(client_.read(1, number));
}

TEST_F(Filling, WhatIsAskedForAgainIsStillToBeFilled) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFailed, kNever);
  restart_node_1();
  client_.run_for(3'500 * kMillisecond);
  EXPECT_GT(status().to_fill, 0u);
  faulty_->set_plan({});
  EXPECT_TRUE(client_.wait_for([&] { return client_.holds(1, number, 1); }, kSecond));
}

// Clients wait meanwhile, so one answer looks at so many slots.
TEST(Holdings, OneAnswerWalksThroughAPartOfThePool) {
  constexpr uint64_t kMost = 4096;
  SimClusterOptions options = three_nodes();
  options.node.pool_bytes = 2 * kMost * (512 + sizeof(PageHeader));
  SimCluster cluster(1, options);
  RawClient client(cluster);
  settle(client);
  NodeService& node = cluster.node_service(0);
  const ClientId session = node.connected().value();
  HelloRequest hello;
  hello.node = node_id("n1");
  hello.epoch = client.tag();
  node.handle(session, hello, [](const Reply&) {});
  std::vector<uint64_t> cursors;
  uint64_t cursor = 0;
  do {
    node.handle(session, HoldingsRequest{client.tag(), {}, cursor},
                [&](Reply reply) { cursor = std::get<HoldingsReply>(reply).next; });
    cursors.push_back(cursor);
  } while (cursor != 0 && cursors.size() < 10);
  EXPECT_EQ(cursors, (std::vector<uint64_t>{kMost, 0}));
}

// Node 0 has what node 1 has not, and no epoch or link is new.
class Stale : public Filling {
 protected:
  void put_without_node_1(uint64_t number, uint64_t put) {
    fail(FaultKind::kFailed, kNever);
    EXPECT_EQ(client_.put(number, put, 10 * kMillisecond).code, Code::kTimeout);
    client_.run_for(4 * kSecond);  // its reads end
    faulty_->set_plan({});
    client_.run_for(4 * kSecond);
    ASSERT_TRUE(client_.holds(0, number, put));
    ASSERT_FALSE(client_.holds(1, number, put));
  }
  uint64_t dropped_for(std::vector<PageKey> keys) {
    return client_.ask<ReportReply>(1, ReportRequest{std::move(keys)}).dropped;
  }
};

TEST_F(Stale, PageThatIsReportedIsFilledFromANewerOne) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  put_without_node_1(number, 2);
  ASSERT_TRUE(client_.holds(1, number, 1));
  EXPECT_EQ(dropped_for({client_.key(number)}), 0u);
  client_.run_for(50 * kMillisecond);
  EXPECT_TRUE(client_.holds(1, number, 2));
  EXPECT_EQ(status().repaired, 1u);
}

TEST_F(Stale, PageThatIsMissingIsFilledWhenItIsReported) {
  const uint64_t number = client_.number_with({0, 1});
  put_without_node_1(number, 1);
  EXPECT_EQ(dropped_for({client_.key(number)}), 0u);
  client_.run_for(50 * kMillisecond);
  EXPECT_TRUE(client_.holds(1, number, 1));
}

// It asks again a second later.
TEST_F(Stale, ReportsMakeNoMoreThanSoManyQuestionsASecond) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  put_without_node_1(number, 2);
  std::vector<PageKey> others;
  for (uint64_t other = 0; others.size() < 300; ++other) {
    const auto set = client_.set_of(client_.key(other));
    if (other != number && std::ranges::find(set, 1u) != set.end()) {
      others.push_back(client_.key(other));
    }
  }
  const uint64_t before = cluster_.control_messages();
  for (const PageKey& key : others) dropped_for({key});
  for (int i = 0; i < 300; ++i) dropped_for({others[0]});
  dropped_for({client_.key(number)});
  client_.run_for(10 * kMillisecond);
  const uint64_t messages = cluster_.control_messages() - before;
  EXPECT_GE(messages, 256u);
  EXPECT_LE(messages, 256u + 30) << "and the renewals";
  EXPECT_TRUE(client_.holds(1, number, 1));
  client_.run_for(kSecond);
  dropped_for({client_.key(number)});
  client_.run_for(50 * kMillisecond);
  EXPECT_TRUE(client_.holds(1, number, 2));
}

TEST_F(Stale, KeyOfOthersIsAskedOfNobody) {
  const uint64_t number = client_.number_with({0, 2});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  const uint64_t before = cluster_.control_messages();
  dropped_for({client_.key(number)});
  client_.run_for(kMicrosecond);
  EXPECT_EQ(cluster_.control_messages(), before);
  EXPECT_FALSE(client_.read(1, number));
}

}  // namespace
}  // namespace farpage
