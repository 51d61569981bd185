// The end of a run that was left out, in virtual time.
#include <gtest/gtest.h>

#include "tests/node/raw_client.h"
#include "tests/support/counting_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kSlowNs = 50 * kMillisecond;

bool all_are_in(SimCluster& cluster) {
  const RegisteredEpoch& current = cluster.epochs()->current();
  return current.all_confirmed() && current.epoch.members.size() == cluster.nodes();
}

// Node 1 is left out while it stands still.
class Leaving : public testing::Test {
 protected:
  Leaving() : cluster_(1, options()), client_(cluster_) {
    EXPECT_TRUE(client_.wait_for([&] { return all_are_in(cluster_); }));
    client_.run_for(100 * kMillisecond);
    number_ = client_.number_with({0, 1});
    EXPECT_EQ(client_.put(number_, 1).code, Code::kOk);
    EXPECT_TRUE(client_.holds(1, number_, 1)) << "and has a lane there";
    cluster_.node_fabric(1).set_options({.offload_min_ns = kSlowNs, .offload_max_ns = kSlowNs});
    cluster_.node_fabric(1).pause();
    EXPECT_TRUE(
        client_.wait_for([&] { return cluster_.epochs()->current().epoch.members.size() == 2; }));
    own_ = cluster_.node_service(1).connected().value();
  }

  SimClusterOptions options() {
    SimClusterOptions options;
    options.nodes = 3;
    options.replicas = 2;
    options.uses_register = true;
    options.wrap_node = [this](size_t node, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
      auto fabric = std::make_unique<CountingFabric>(own);
      if (node == 1) counted_ = fabric.get();
      return fabric;
    };
    return options;
  }
  bool answers_status() {
    std::optional<Reply> reply;
    cluster_.node_service(1).handle(own_, StatusRequest{},
                                    [&](Reply answer) { reply = std::move(answer); });
    return reply && std::holds_alternative<StatusReply>(*reply);
  }
  // In steps of a microsecond.
  bool await(const std::function<bool()>& what) {
    const uint64_t until = cluster_.now_ns() + kSecond;
    while (!what() && cluster_.now_ns() < until) client_.run_for(kMicrosecond);
    return what();
  }

  CountingFabric* counted_ = nullptr;  // of node 1
  SimCluster cluster_;
  RawClient client_;
  uint64_t number_ = 0;
  ClientId own_ = 0;
};

TEST_F(Leaving, WhatItsClientsHadIsEndedBesideTheNodesThread) {
  const size_t ended = counted_->ended().size();
  const int channels = counted_->channels();
  ASSERT_GT(channels, 3) << "of the client, and of the other nodes";
  ASSERT_TRUE(answers_status());
  cluster_.node_fabric(1).resume();
  client_.run_for(kSlowNs - kMicrosecond);
  EXPECT_FALSE(answers_status()) << "it knows that it was left out";
  EXPECT_EQ(counted_->ended().size(), ended);
  EXPECT_EQ(counted_->channels(), channels);
  ASSERT_TRUE(await([&] { return counted_->channels() == 0; }));
}

TEST_F(Leaving, NewRunBeginsOnceTheOldOneIsGone) {
  const uint64_t incarnation = client_.status(1).incarnation;
  cluster_.node_fabric(1).resume();
  ASSERT_TRUE(await([&] { return !answers_status(); }));
  bool all_ended = false;
  ASSERT_TRUE(await([&] {
    all_ended = all_ended || counted_->channels() == 0;
    return answers_status();
  }));
  EXPECT_TRUE(all_ended);
  ASSERT_TRUE(client_.wait_for([&] { return all_are_in(cluster_); }));
  cluster_.node_fabric(1).set_options({});
  // Pages that the others get since they reach it again were begun while that was slow.
  client_.run_for(10 * kSlowNs);
  client_.forget(1);
  EXPECT_NE(client_.status(1).incarnation, incarnation);
  EXPECT_TRUE(client_.wait_for([&] { return client_.holds(1, number_, 1); }));
}

}  // namespace
}  // namespace farpage
