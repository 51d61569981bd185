// A member's missing pages, and how it gets them when its reads of the others fail, in virtual
// time.
#include <gtest/gtest.h>

#include "sim/fault/fault_fabric.h"
#include "tests/node/fleet/three_nodes.h"

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

TEST_F(Filling, FillIsNotDoneWithoutAPageThatIsNotReached) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFailed, kNever);
  restart_node_1();
  client_.run_for(60 * kSecond);
  EXPECT_GT(status().to_fill, 0u);
  faulty_->set_plan({});
  EXPECT_TRUE(client_.wait_for([&] { return client_.holds(1, number, 1); }, kSecond));
  EXPECT_EQ(status().to_fill, 0u);
}

// As an operator does who restarts one node after the other: node 1 is full again once it has
// nothing to fill.
class Polling : public testing::Test {
 protected:
  void start(const SimClusterOptions& options) {
    cluster_.emplace(1, options);
    client_.emplace(*cluster_);
    client_->run_for(kSecond);
  }
  void put(const std::vector<size_t>& set, size_t count) {
    constexpr size_t kAtOnce = 100;
    std::vector<std::pair<uint64_t, uint64_t>> puts;
    for (size_t i = 0; i < count; ++i) {
      numbers_.push_back(client_->number_with(set, numbers_.empty() ? 0 : numbers_.back() + 1));
      puts.emplace_back(numbers_.back(), 1);
      if (puts.size() < kAtOnce && i + 1 < count) continue;
      for (const CommitResult& result : client_->results(client_->begin_put(set[0], puts))) {
        ASSERT_EQ(result.code, Code::kOk);
      }
      puts.clear();
    }
  }
  void restart(size_t node) {
    cluster_->end_node(NodeEnd::kPowerLost, node);
    client_->run_for(50 * kMillisecond);
    cluster_->start_node(node);
  }
  uint64_t to_fill() { return client_->status(1).fleet.to_fill; }
  bool poll_until_filled(uint64_t patience_ns = 2 * kSecond) {
    const uint64_t until = cluster_->now_ns() + patience_ns;
    while (to_fill() > 0 && cluster_->now_ns() < until) client_->run_for(10 * kMicrosecond);
    return to_fill() == 0;
  }
  size_t filled() {
    return static_cast<size_t>(std::ranges::count_if(
        numbers_, [&](uint64_t number) { return client_->is_live(1, number); }));
  }

  std::optional<SimCluster> cluster_;
  std::optional<RawClient> client_;
  std::vector<uint64_t> numbers_;
};

TEST_F(Polling, FillOfTwoAnswersIsNotDoneBetweenThem) {
  constexpr size_t kPages = 1030;  // an answer names 1024
  SimClusterOptions options = three_nodes();
  options.node.pool_bytes = 1400 * (512 + sizeof(PageHeader));
  start(options);
  put({0, 1}, kPages);
  restart(1);
  EXPECT_TRUE(poll_until_filled());
  EXPECT_EQ(filled(), kPages);
}

TEST_F(Polling, MemberThatHasNotJoinedYetIsNotFilled) {
  SimClusterOptions options = three_nodes();
  options.uses_register = true;
  start(options);
  put({0, 1}, 4);
  restart(1);
  EXPECT_TRUE(poll_until_filled());
  EXPECT_EQ(filled(), 4u);
}

TEST_F(Polling, FillIsNotDoneWhileItsPeerIsSilent) {
  SimClusterOptions options = three_nodes();
  options.node.fill_bytes_per_s = 256 * 500;  // a page in 2 ms
  start(options);
  put({0, 1}, 10);
  restart(1);
  ASSERT_TRUE(client_->wait_for([&] { return filled() > 1; }));
  const uint64_t until = cluster_->now_ns() + 100 * kMillisecond;
  cluster_->part(cluster_->node_host(0), cluster_->node_host(1));
  for (; cluster_->now_ns() < until; client_->run_for(10 * kMicrosecond)) {
    ASSERT_GT(to_fill(), 0u) << filled() << " of 10";
  }
  ASSERT_LT(filled(), 10u);
  cluster_->heal_all();
  EXPECT_TRUE(poll_until_filled());
  EXPECT_EQ(filled(), 10u);
}

TEST_F(Polling, FillThatFindsNoSlotGoesOnWhenThereIsOne) {
  SimClusterOptions options = three_nodes();
  options.node.evict = false;
  options.node.pool_bytes = 64 * (512 + sizeof(PageHeader));
  options.node.fill_bytes_per_s = 64 * kKiB;  // a page in 4 ms
  start(options);
  // Versions above those of what is removed later: a bucket's floor would keep them out.
  const uint64_t again = client_->number_with({0, 2});
  for (uint64_t i = 1; i <= 120; ++i) ASSERT_EQ(client_->put(again, i).code, Code::kOk);
  put({0, 1}, 60);
  restart(1);
  std::vector<std::pair<uint64_t, uint64_t>> puts;
  std::vector<PageKey> others;
  for (uint64_t number = 0; others.size() < 40;) {
    number = client_->number_with({2, 1}, number + 1);
    puts.emplace_back(number, 1);
    others.push_back(RawClient::key(number));
  }
  ASSERT_TRUE(client_->wait_for([&] { return client_->put(puts[0].first, 1).code == Code::kOk; }));
  client_->results(client_->begin_put(2, puts));
  EXPECT_FALSE(poll_until_filled(500 * kMillisecond));
  ASSERT_LT(filled(), 60u);
  client_->ask<RemoveReply>(2, RemoveRequest{others, client_->tag(), kSecond});
  EXPECT_TRUE(poll_until_filled());
  EXPECT_EQ(filled(), 60u);
}

TEST_F(Filling, PageThatIsToBeReadAgainIsNotForgottenWhenItsPeerIsSilent) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  fail(FaultKind::kFlippedPayload, 1);
  restart_node_1();
  while (faulty_->injected().of(FaultKind::kFlippedPayload) == 0) client_.run_for(kMicrosecond);
  cluster_.part(cluster_.node_host(0), cluster_.node_host(1));
  for (const uint64_t until = cluster_.now_ns() + 100 * kMillisecond; cluster_.now_ns() < until;) {
    ASSERT_GT(status().to_fill, 0u);
    client_.run_for(10 * kMicrosecond);
  }
  cluster_.heal_all();
  EXPECT_TRUE(client_.wait_for([&] { return status().to_fill == 0; }));
  EXPECT_TRUE(client_.holds(1, number, 1));
}

// The only page there is lies dead at node 0, where no key finds it, and is read in vain once.
TEST(DeadPages, OneThatIsFlippedInFlightIsReadAgain) {
  SimClusterOptions options = three_nodes(1);
  options.uses_register = true;
  FaultFabric* faulty = nullptr;  // of node 2's newest run
  options.wrap_node = [&](size_t node, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
    auto fabric = std::make_unique<FaultFabric>(own, own.runtime().clock(), 1);
    FaultPlan plan;
    plan.of(FaultKind::kFlippedPayload) = 1;
    plan.most = 1;
    if (node == 2) (faulty = fabric.get())->set_plan(plan);
    return fabric;
  };
  SimCluster cluster(8, options);
  RawClient client(cluster);
  client.run_for(kSecond);
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for([&] { return client.epoch_now().members.size() == 2; }));
  client.run_for(200 * kMillisecond);
  const uint64_t number = client.number_that_moves(0, 2);
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.start_node(2);
  ASSERT_TRUE(client.wait_for([&] { return client.epoch_now().members.size() == 3; }));
  EXPECT_TRUE(client.wait_for([&] { return client.holds(2, number, 1); }, kSecond));
  EXPECT_EQ(faulty->injected().of(FaultKind::kFlippedPayload), 1u);
  EXPECT_FALSE(client.read(0, number));
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
