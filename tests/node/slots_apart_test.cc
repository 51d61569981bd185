// Nodes that keep headers and payloads apart, alone and among others.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "integrity/crc32c.h"
#include "integrity/page_check.h"
#include "node/store/page_store.h"
#include "sim/fault/fault_fabric.h"
#include "tests/node/fleet/three_nodes.h"

namespace farpage {
namespace {

using fault::FaultFabric;
using fault::FaultKind;
using fault::FaultPlan;

constexpr uint64_t kPageBytes = 256;
constexpr uint64_t kSlots = 8;
constexpr uint64_t kReuse = 100;

struct HandClock final : Clock {
  uint64_t now_ns() const override { return now; }
  uint64_t now = 1;
};

// A store alone, and what a reader of its two regions sees.
class StoreApart : public testing::Test {
 protected:
  Code put(uint64_t number, Version version) {
    const std::string text(kPageBytes - number, static_cast<char>('a' + version % 26));
    return store_->put(RawClient::key(number), version,
                       {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                       crc32c(0, text.data(), text.size()));
  }
  PageHeader header(uint32_t slot) const {
    PageHeader header;
    std::memcpy(&header, store_->headers().data() + geometry_.header_offset(slot), sizeof header);
    return header;
  }
  bool payload_is_whole(uint32_t slot) const {
    const PageHeader page = header(slot);
    return crc32c(0, store_->pool().data() + geometry_.payload_offset(slot), page.payload_bytes) ==
           page.payload_crc;
  }
  bool is_live(uint32_t slot, uint64_t number) const {
    return check_header(header(slot), {RawClient::key(number), 0, 0, 5, 0}) == PageFinding::kGood;
  }

  const Geometry geometry_ =
      make_geometry(kPageBytes, kSlots*(kPageBytes + 64), SlotLayout::kApart).value();
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  HandClock clock_;
  std::unique_ptr<PageStore> store_ =
      PageStore::create({geometry_, 5, kReuse, true}, fabric_, clock_).value();
};

TEST_F(StoreApart, HeadersAndPayloadsLieInTheirRegionsAndNothingBetween) {
  EXPECT_EQ(store_->headers().bytes(), kSlots * 64);
  EXPECT_EQ(store_->pool().bytes(), kSlots * kPageBytes);
  for (uint64_t number = 0; number < kSlots - 1; ++number) {
    ASSERT_EQ(put(number, 10 + number), Code::kOk);
  }
  for (uint64_t number = 0; number < kSlots - 1; ++number) {
    const auto found = store_->find(RawClient::key(number));
    ASSERT_TRUE(found);
    EXPECT_TRUE(is_live(found->slot, number));
    EXPECT_TRUE(payload_is_whole(found->slot));
    EXPECT_EQ(store_->check(RawClient::key(number)), Code::kOk);
  }
}

TEST_F(StoreApart, SlotsCoolBeforeTheyAreUsedAgain) {
  ASSERT_EQ(put(1, 10), Code::kOk);
  const uint32_t first = store_->find(RawClient::key(1))->slot;
  ASSERT_EQ(put(1, 11), Code::kOk);
  EXPECT_FALSE(is_live(first, 1)) << "before the put is acknowledged";
  EXPECT_EQ(header(first).version, 10u);
  EXPECT_TRUE(payload_is_whole(first)) << "who reads it still reads a page";
  for (uint64_t number = 2; number < 2 + 4 * kSlots; ++number) {
    while (put(number % 100, 10 + number) == Code::kExhausted) clock_.now += kReuse;
  }
  EXPECT_GT(store_->evictions(), 0u);
}

TEST_F(StoreApart, DamagedPagesAreFoundInEitherRegion) {
  for (const bool in_header : {true, false}) {
    ASSERT_EQ(put(3, in_header ? 20 : 30), Code::kOk);
    const uint32_t slot = store_->find(RawClient::key(3))->slot;
    std::byte* at = in_header ? store_->headers().data() + geometry_.header_offset(slot)
                              : store_->pool().data() + geometry_.payload_offset(slot);
    at[in_header ? offsetof(PageHeader, version) : 100] ^= std::byte{1};
    EXPECT_EQ(store_->check_slot(slot).code, Code::kAborted);
    EXPECT_FALSE(store_->find(RawClient::key(3)));
  }
}

// Three nodes of which some keep headers and payloads apart, and what node 1 reads can go wrong.
class MixedFleet : public testing::TestWithParam<uint64_t> {
 protected:
  SimClusterOptions options() {
    SimClusterOptions options = three_nodes();
    options.nodes_apart = GetParam();
    options.wrap_node = [this](size_t node, sim::SimFabric& own) {
      auto fabric = std::make_unique<FaultFabric>(own, own.runtime().clock(), 1);
      if (node == 1) faulty_ = fabric.get();
      return fabric;
    };
    return options;
  }
  void SetUp() override { settle(client_); }

  FaultFabric* faulty_ = nullptr;  // of node 1's newest run
  SimCluster cluster_{1, options()};
  RawClient client_{cluster_};
};

TEST_P(MixedFleet, EveryReplicaHoldsWhatWasPut) {
  for (uint64_t number = 0; number < 12; ++number) {
    for (const uint64_t put : {1, 2}) ASSERT_EQ(client_.put(number, put).code, Code::kOk);
    for (const size_t node : client_.set_of(client_.key(number))) {
      EXPECT_TRUE(client_.holds(node, number, 2)) << number << " at " << node;
    }
  }
}

TEST_P(MixedFleet, NodeThatComesBackIsFilled) {
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; numbers.size() < 8;) {
    numbers.push_back(number =
                          client_.number_with({numbers.size() % 2 == 0 ? 0u : 2u, 1}, number + 1));
    ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  }
  cluster_.end_node(NodeEnd::kPowerLost, 1);
  client_.run_for(50 * kMillisecond);
  cluster_.start_node(1);
  for (const uint64_t number : numbers) {
    EXPECT_TRUE(client_.wait_for([&] { return client_.holds(1, number, 1); }, kSecond)) << number;
  }
}

TEST_P(MixedFleet, DamagedPageIsRepairedFromTheOther) {
  const uint64_t number = client_.number_with({0, 1});
  ASSERT_EQ(client_.put(number, 1).code, Code::kOk);
  for (const uint64_t offset : {uint64_t{24}, sizeof(PageHeader) + 100}) {
    for (const size_t node : {0, 1}) {
      client_.damage(node, number, offset);
      client_.ask<ReportReply>(node, ReportRequest{{client_.key(number)}});
      EXPECT_TRUE(client_.wait_for([&] { return client_.holds(node, number, 1); }, kSecond));
    }
  }
}

// A replica takes over no byte that is wrong, and goes on once nothing is.
TEST_P(MixedFleet, WhateverHappensToTheReadsOfAReplica) {
  uint64_t number = 0;
  for (const FaultKind kind :
       {FaultKind::kFlippedHeader, FaultKind::kFlippedPayload, FaultKind::kTorn, FaultKind::kShort,
        FaultKind::kNothing, FaultKind::kStaleSlot, FaultKind::kLate, FaultKind::kDuplicated,
        FaultKind::kReordered, FaultKind::kFailed}) {
    for (const uint64_t most : {1, 3}) {
      FaultPlan plan;
      plan.of(kind) = 0.6;
      plan.most = most;
      plan.late_max_ns = 3 * kMillisecond;
      faulty_->set_plan(plan);
      for (size_t round = 0; round < 3; ++round) {
        number = client_.number_with({0, 1}, number + 1);
        const CommitResult result = client_.put(number, 1, 20 * kMillisecond);
        const auto held = client_.read(1, number);
        EXPECT_TRUE(!held || held->bytes == RawClient::bytes_of(number, 1)) << fault_name(kind);
        EXPECT_TRUE(held || result.code != Code::kOk) << fault_name(kind);
      }
      faulty_->set_plan({});
      client_.run_for(4 * kSecond);
      EXPECT_EQ(client_.put(number, 2).code, Code::kOk) << fault_name(kind);
      EXPECT_TRUE(client_.holds(1, number, 2)) << fault_name(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Apart, MixedFleet, testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace farpage
