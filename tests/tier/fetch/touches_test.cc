// A node hears nothing of reads but what its clients' touch logs tell, and its eviction goes by
// that.
#include <gtest/gtest.h>

#include <memory>

#include "pagetable/touch_log.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;

// Of sixteen slots.
class Touches : public testing::Test {
 protected:
  static SimClusterOptions two_clients() {
    SimClusterOptions options;
    options.clients = 2;
    return options;
  }

  void SetUp() override {
    cluster_.watch_answers([this](size_t, const Reply& reply) {
      hellos_ += std::holds_alternative<HelloReply>(reply) ? 1 : 0;
    });
    for (const PageKey& key : {hot_, warm_}) ASSERT_EQ(writer_.put(key, 1).code, Code::kOk);
  }

  // Tells one block of it.
  static void read_often(Client& client, Lane& lane, Engine& engine, const PageKey& key) {
    for (uint32_t i = 0; i < kTouchBlockSlots; ++i) {
      const PageRequest request = {key, 0, engine.slice(1)};
      PageVerdict verdict;
      lane.fetch({&request, 1}, {&verdict, 1}, client.clock().now_ns() + kSecond).wait();
      ASSERT_EQ(verdict.verdict, Verdict::kReady) << i;
    }
  }
  void put_others(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(writer_.put(test_key(++last_), 1).code, Code::kOk);
    }
  }
  uint64_t evictions() {
    return client_->node_status(cluster_.now_ns() + kSecond).value().evictions;
  }

  SimCluster cluster_{1, two_clients()};
  std::unique_ptr<Client> client_ = cluster_.connect(0).value();
  Engine writer_{*client_, kPageBytes, 2};
  const PageKey hot_ = test_key(1);
  const PageKey warm_ = test_key(2);
  uint64_t last_ = 100;
  int hellos_ = 0;
};

TEST_F(Touches, WhatTwoLanesReadIsSparedWhileTheirClientPuts) {
  Lane other = client_->open_lane().value();
  for (int round = 0; round < 20; ++round) {
    read_often(*client_, writer_.lane(), writer_, hot_);
    read_often(*client_, other, writer_, warm_);
    put_others(4);
  }
  EXPECT_GT(evictions(), 60u);
  EXPECT_EQ(writer_.fetch(hot_).verdict, Verdict::kReady);
  EXPECT_EQ(writer_.fetch(warm_).verdict, Verdict::kReady);
}

TEST_F(Touches, WhatNobodyReadsIsEvicted) {
  put_others(40);
  EXPECT_EQ(writer_.fetch(hot_).reason, Reason::kMiss);
}

TEST_F(Touches, ClientThatPutsNothingTellsWhatItReadsAllTheSame) {
  const auto reading = cluster_.connect(1, {.staging_bytes = 0}).value();
  Engine reader(*reading, kPageBytes, 2);
  for (int round = 0; round < 20; ++round) {
    read_often(*reading, reader.lane(), reader, hot_);
    put_others(4);
  }
  EXPECT_GT(evictions(), 60u);
  EXPECT_EQ(reader.fetch(hot_).verdict, Verdict::kReady);
}

// Otherwise the node would take for cold what this client reads most.
TEST_F(Touches, StagingThatTellsNobodyIsReplacedAndReadsGoOn) {
  const auto reading = cluster_.connect(1, {.staging_bytes = 0}).value();
  Engine reader(*reading, kPageBytes, 2);
  read_often(*reading, reader.lane(), reader, hot_);
  for (uint32_t i = 1; i < kTouchBlockSlots; ++i) {
    ASSERT_EQ(reader.fetch(hot_).verdict, Verdict::kReady);
  }
  // The last read of the block has been posted, and its touch has not.
  cluster_.world().after(1, [this] { cluster_.client_fabric(1).set_options({.fail = 1}); });
  ASSERT_EQ(reader.fetch(hot_).verdict, Verdict::kReady);
  cluster_.client_fabric(1).set_options({});
  hellos_ = 0;
  for (int round = 0; round < 20; ++round) {
    read_often(*reading, reader.lane(), reader, hot_);
    put_others(4);
  }
  EXPECT_EQ(hellos_, 1) << "one new view, and no more";
  EXPECT_EQ(reader.lane().stats().channels_ended, 0u);
  EXPECT_EQ(reader.fetch(hot_).verdict, Verdict::kReady);
}

}  // namespace
}  // namespace farpage
