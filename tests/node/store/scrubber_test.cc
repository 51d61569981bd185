#include "node/store/scrubber.h"

#include <gtest/gtest.h>

#include "tests/node/fleet/three_nodes.h"

namespace farpage {
namespace {

constexpr uint64_t kRate = 16 * kMiB;  // a pool of 16 slots of 512 bytes every 32 ms

SimClusterOptions scrubbed_nodes(uint64_t replicas = 2) {
  SimClusterOptions options = three_nodes(replicas);
  options.node.scrub_bytes_per_s = kRate;
  return options;
}

constexpr uint64_t kPassNs = 80 * kMillisecond;

// No client asks for the page, and none reports it.
TEST(Scrubber, PageThatGoesBadIsFoundWithinAPassAndRepairedFromTheOther) {
  SimCluster cluster(31, scrubbed_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  for (const size_t node : client.set_of(client.key(1))) {
    const ScrubCounts before = client.status(node).scrubs;
    EXPECT_EQ(before.dropped, 0u);
    client.damage(node, 1);
    EXPECT_TRUE(client.wait_for([&] { return client.status(node).fleet.repaired == 1; }, kPassNs));
    const ScrubCounts after = client.status(node).scrubs;
    EXPECT_EQ(after.dropped, 1u);
    EXPECT_LE(after.passes, before.passes + 2);
    EXPECT_TRUE(client.holds(node, 1, 1));
  }
}

TEST(Scrubber, WhatIsWholeStaysAndIsLookedAtAgainAndAgain) {
  SimCluster cluster(32, scrubbed_nodes());
  RawClient client(cluster);
  settle(client);
  for (uint64_t number = 1; number <= 5; ++number) {
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  }
  client.run_for(10 * kPassNs);
  for (size_t node = 0; node < 3; ++node) {
    const StatusReply status = client.status(node);
    EXPECT_GE(status.scrubs.passes, 10u);
    EXPECT_EQ(status.scrubs.dropped, 0u);
    EXPECT_EQ(status.scrubs.entries, 0u);
    EXPECT_EQ(status.fleet.filled, 0u);
  }
  for (uint64_t number = 1; number <= 5; ++number) {
    for (const size_t node : client.set_of(client.key(number))) {
      EXPECT_TRUE(client.holds(node, number, 1));
    }
  }
}

TEST(Scrubber, KeepsItsPace) {
  SimClusterOptions options = scrubbed_nodes(3);
  options.node.pool_bytes = 3'400 * (512 + sizeof(PageHeader));
  SimCluster cluster(33, options);
  RawClient client(cluster);
  settle(client);
  for (uint64_t number = 1; number <= 3'000; ++number) {
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  }
  const uint64_t before = client.status(0).scrubs.bytes;
  const uint64_t begun_ns = cluster.now_ns();
  client.run_for(kSecond);
  const uint64_t most = kRate * (cluster.now_ns() - begun_ns) / kSecond + kMiB;
  const uint64_t looked_at = client.status(0).scrubs.bytes - before;
  EXPECT_LE(looked_at, most);
  EXPECT_GE(looked_at, kRate / 2);
}

// Of a page whose header is damaged nobody can say which it was.
TEST(Scrubber, DamagedHeaderLeadsNobodyToItsSlotAnyMore) {
  SimCluster cluster(34, scrubbed_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  const size_t node = client.set_of(client.key(1))[0];
  const uint64_t live = client.status(node).slots_live;
  client.damage(node, 1, offsetof(PageHeader, version));
  EXPECT_TRUE(client.wait_for([&] { return client.status(node).scrubs.dropped == 1; }, kPassNs));
  EXPECT_EQ(client.status(node).slots_live, live - 1);
  EXPECT_TRUE(client.holds(client.set_of(client.key(1))[1], 1, 1));
  ASSERT_EQ(client.put(1, 2).code, Code::kOk);
  EXPECT_TRUE(client.holds(node, 1, 2));
}

TEST(Scrubber, EntryOfTheIndexThatClientsReadIsMended) {
  SimCluster cluster(35, scrubbed_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  const size_t node = client.set_of(client.key(1))[0];
  client.damage_index(node, 1);
  ASSERT_FALSE(client.read(node, 1));
  EXPECT_TRUE(client.wait_for([&] { return client.status(node).scrubs.entries == 1; }, kPassNs));
  EXPECT_TRUE(client.holds(node, 1, 1));
  EXPECT_EQ(client.status(node).scrubs.dropped, 0u);
}

TEST(Scrubber, NoneIsARateOfZero) {
  SimCluster cluster(36, three_nodes());
  RawClient client(cluster);
  settle(client);
  EXPECT_EQ(client.status(0).scrubs.passes, 0u);
}

}  // namespace
}  // namespace farpage
