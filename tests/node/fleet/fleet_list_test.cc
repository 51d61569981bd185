// Several nodes whose membership is a list, in virtual time: what a put's acknowledgement means.
#include <gtest/gtest.h>

#include "tests/node/fleet/three_nodes.h"
#include "transport/forwarding_fabric.h"

namespace farpage {
namespace {

TEST(FleetList, PutIsAcknowledgedWhenAllOfItsSetHoldIt) {
  SimCluster cluster(1, three_nodes());
  RawClient client(cluster);
  settle(client);
  for (uint64_t number = 0; number < 10; ++number) {
    const CommitResult result = client.put(number, 1);
    ASSERT_EQ(result.code, Code::kOk);
    const auto set = client.set_of(client.key(number));
    for (size_t node = 0; node < 3; ++node) {
      const bool is_in_set = std::ranges::find(set, node) != set.end();
      const auto found = client.read(node, number);
      ASSERT_EQ(found.has_value(), is_in_set) << "node " << node;
      if (!found) continue;
      EXPECT_EQ(found->version, result.version);
      EXPECT_EQ(found->bytes, client.bytes_of(number, 1));
    }
  }
}

TEST(FleetList, LaterPutIsReadEverywhereOnceItIsAcknowledged) {
  SimCluster cluster(2, three_nodes(3));
  RawClient client(cluster);
  settle(client);
  for (uint64_t put = 1; put <= 20; ++put) {
    ASSERT_EQ(client.put(7, put).code, Code::kOk);
    for (size_t node = 0; node < 3; ++node) ASSERT_TRUE(client.holds(node, 7, put));
  }
}

TEST(FleetList, OneReplicaIsThePrimaryAlone) {
  SimCluster cluster(3, three_nodes(1));
  RawClient client(cluster);
  settle(client);
  EXPECT_EQ(client.put(1, 1).code, Code::kOk);
  const size_t primary = client.set_of(client.key(1))[0];
  for (size_t node = 0; node < 3; ++node) EXPECT_EQ(client.holds(node, 1, 1), node == primary);
}

// Does not register where headers of other members' pages land, as a system does that has no memory
// to lock.
class RefusingFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  Result<Region> register_local(const MemoryRange& range) override {
    if (refuses && range.bytes == kHeadersBytes) {
      ++refused;
      return fail(Code::kExhausted, "no memory to lock");
    }
    return ForwardingFabric::register_local(range);
  }
  static constexpr uint64_t kHeadersBytes = 64 * sizeof(PageHeader);
  bool refuses = true;
  int refused = 0;
};

TEST(FleetList, OthersThatCouldNotBeReadAreReadLater) {
  RefusingFabric* refusing = nullptr;
  SimClusterOptions options = three_nodes();
  options.wrap_node = [&](size_t node, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
    auto fabric = std::make_unique<RefusingFabric>(own);
    fabric->refuses = node == 1;
    if (node == 1) refusing = fabric.get();
    return fabric;
  };
  SimCluster cluster(12, options);
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  EXPECT_NE(client.put(number, 1, 10 * kMillisecond).code, Code::kOk);
  cluster.world().run_until(cluster.now_ns() + kSecond);
  EXPECT_GE(refusing->refused, 1);
  EXPECT_LE(refusing->refused, 2 * 20) << "twenty times a second, for each of two members";
  refusing->refuses = false;
  settle(client);
  EXPECT_EQ(client.put(number, 2).code, Code::kOk);
  EXPECT_EQ(client.status(1).fleet.others.size(), 2u);
}

// Its versions are lower than those that the others hold, which would take them for old ones.
TEST(FleetList, PrimaryThatLostItsStateFileGetsNothingAcknowledged) {
  SimCluster cluster(21, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  for (uint64_t put = 1; put <= 3; ++put) ASSERT_EQ(client.put(number, put).code, Code::kOk);
  cluster.end_node(NodeEnd::kKilled, 0);
  cluster.lose_state_file(0);
  cluster.start_node(0);
  settle(client);
  EXPECT_NE(client.put(number, 4).code, Code::kOk);
  EXPECT_TRUE(client.holds(1, number, 3));
}

TEST(FleetList, ReplicaTellsOfTheNewestEpochThatItHasTakenOver) {
  SimCluster cluster(16, three_nodes());
  RawClient client(cluster);
  settle(client);
  const auto set = client.set_of(client.key(1));
  cluster.end_node(NodeEnd::kPowerLost, set[0]);
  cluster.start_node(set[0]);
  settle(client);
  const auto told = [&] {
    return client.ask<ReportReply>(set[1], ReportRequest{{client.key(1)}}).newest_epoch;
  };
  EXPECT_EQ(told(), 0u);
  const CommitResult put = client.put(1, 1);
  ASSERT_EQ(put.code, Code::kOk);
  const uint64_t epoch = version_epoch(put.version);
  EXPECT_GT(epoch, client.status(set[1]).epoch) << "of another node's";
  EXPECT_EQ(told(), epoch);
  NodeService& node = cluster.node_service(set[1]);
  HelloRequest hello;
  hello.epoch = client.tag();
  std::optional<Reply> reply;
  node.handle(node.connected().value(), hello, [&](Reply answer) { reply = std::move(answer); });
  cluster.world().wait_until(cluster.now_ns(), [&] { return reply.has_value(); });
  ASSERT_TRUE(reply && std::holds_alternative<HelloReply>(*reply));
  EXPECT_EQ(std::get<HelloReply>(*reply).newest_epoch, epoch);
}

// It enters no other one: nobody is to wait for that.
TEST(FleetList, QuestionForTheNextEpochIsAnsweredAtOnce) {
  SimCluster cluster(17, three_nodes());
  RawClient client(cluster);
  settle(client);
  const auto answer = client.send(0, EpochRequest{client.tag()});
  ASSERT_TRUE(answer->reply);
  EXPECT_EQ(std::get<EpochReply>(*answer->reply).view.number, 0u);
}

TEST(FleetList, OnlyThePrimaryTakesAPut) {
  SimCluster cluster(4, three_nodes());
  RawClient client(cluster);
  settle(client);
  const auto set = client.set_of(client.key(1));
  for (size_t node = 0; node < 3; ++node) {
    const auto results = client.results(client.begin_put(node, {{1, 1}}));
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].code, node == set[0] ? Code::kOk : Code::kInvalid);
  }
}

TEST(FleetList, PutOfAnotherListIsRefusedWithOnesOwn) {
  SimCluster cluster(5, three_nodes());
  RawClient client(cluster);
  settle(client);
  const size_t primary = client.set_of(client.key(1))[0];
  const auto results =
      client.results(client.begin_put(primary, {{1, 1}}, kSecond, EpochTag{1, 99}));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].code, Code::kOtherEpoch);
  EXPECT_EQ(client.last_refusal.epoch, client.tag());
  EXPECT_FALSE(client.read(primary, 1));
}

TEST(FleetList, RemoveIsAcknowledgedWhenAllOfItsSetHaveForgotten) {
  SimCluster cluster(6, three_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  const auto set = client.set_of(client.key(1));
  const auto reply =
      client.ask<RemoveReply>(set[0], RemoveRequest{{client.key(1)}, client.tag(), kSecond});
  EXPECT_EQ(reply.removed, 1u);
  for (const size_t node : set) EXPECT_FALSE(client.read(node, 1));
  ASSERT_EQ(client.put(1, 2).code, Code::kOk);
  for (const size_t node : set) EXPECT_TRUE(client.holds(node, 1, 2));
}

TEST(FleetList, PutsOfOneKeyInOneCommitFollowEachOther) {
  SimCluster cluster(7, three_nodes());
  RawClient client(cluster);
  settle(client);
  const auto set = client.set_of(client.key(1));
  const auto results = client.results(client.begin_put(set[0], {{1, 1}, {1, 2}, {1, 3}}));
  ASSERT_EQ(results.size(), 3u);
  for (const CommitResult& result : results) EXPECT_EQ(result.code, Code::kOk);
  for (const size_t node : set) EXPECT_TRUE(client.holds(node, 1, 3));
}

TEST(FleetList, HelloOfAnotherListIsRefusedWithASentence) {
  SimCluster cluster(13, three_nodes());
  const ClientId id = cluster.node_service(0).connected().value();
  std::optional<Reply> reply;
  HelloRequest hello;
  cluster.node_service(0).handle(id, hello, [&](Reply answer) { reply = std::move(answer); });
  EXPECT_EQ(std::get<Refusal>(*reply).message, "this node is one of 3: name all of them");
  hello.epoch = {1, 5};
  cluster.node_service(0).handle(id, hello, [&](Reply answer) { reply = std::move(answer); });
  EXPECT_NE(std::get<Refusal>(*reply).message.find("another list of nodes"), std::string::npos);
}

TEST(FleetList, StrangerReplicatesNothingAndLearnsNoHoldings) {
  SimCluster cluster(14, three_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  const auto set = client.set_of(client.key(1));
  ReplicaPage page;
  page.page.key = client.key(1);
  page.page.version = UINT64_MAX;
  page.removed = true;
  client.ask<Refusal>(set[1], ReplicateRequest{client.tag(), {page}});
  EXPECT_EQ(client.last_refusal.code, Code::kDenied);
  client.ask<Refusal>(set[1], HoldingsRequest{client.tag(), {client.key(1)}, 0});
  EXPECT_EQ(client.last_refusal.code, Code::kDenied);
  EXPECT_TRUE(client.holds(set[1], 1, 1));
}

TEST(FleetList, PageIsNotEvictedWhileItIsReplicated) {
  SimClusterOptions options = three_nodes();
  options.node.lease_ms = 5'000;
  SimCluster cluster(15, options);
  RawClient client(cluster);
  client.run_for(kSecond);
  const uint64_t first = client.number_with({0, 1});
  cluster.node_fabric(1).pause();
  const auto waiting = client.begin_put(0, {{first, 1}}, 4 * kSecond);
  // Sixteen slots, and more pages than that of keys that do not need the paused node.
  uint64_t number = 0;
  for (int i = 0; i < 40; ++i) {
    number = client.number_with({0, 2}, number + 1);
    ASSERT_EQ(client.put(number, 1, kSecond).code, Code::kOk);
  }
  ASSERT_FALSE(waiting->reply.has_value());
  EXPECT_TRUE(client.holds(0, first, 1));
  cluster.node_fabric(1).resume();
  const auto results = client.results(waiting);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].code, Code::kOk);
  EXPECT_TRUE(client.holds(1, first, 1));
}

// Reads overtake each other, and what they bring does not.
TEST(FleetList, PagesAreAppliedInTheOrderInWhichTheyWereSent) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SimCluster cluster(seed, three_nodes());
    RawClient client(cluster);
    settle(client);
    cluster.node_fabric(1).set_options(
        {.delay_min_ns = kMicrosecond, .delay_max_ns = 300 * kMicrosecond, .reorder = 1});
    std::vector<std::pair<uint64_t, uint64_t>> puts;
    uint64_t number = 0;
    while (puts.size() < 10) {
      number = client.number_with({0, 1}, number + 1);
      puts.emplace_back(number, 1);
    }
    ASSERT_FALSE(client.is_live(1, puts[0].first));
    const auto answer = client.begin_put(0, puts);
    size_t most = 0;
    ASSERT_TRUE(cluster.world().wait_until(cluster.now_ns() + kSecond, [&] {
      size_t first = 0;
      while (first < puts.size() && client.is_live(1, puts[first].first)) ++first;
      for (size_t i = first; i < puts.size(); ++i) {
        EXPECT_FALSE(client.is_live(1, puts[i].first)) << "seed " << seed << ": " << i;
      }
      most = std::max(most, first);
      return answer->reply.has_value();
    }));
    EXPECT_EQ(most, puts.size());
  }
}

// A replica has read other bytes than were put.
TEST(FleetList, PageThatIsNotWholeIsNotTakenOver) {
  for (const uint64_t offset : {sizeof(PageHeader) + 100, offsetof(PageHeader, version)}) {
    SimClusterOptions options = three_nodes();
    options.node.lease_ms = 5'000;
    SimCluster cluster(20, options);
    RawClient client(cluster);
    client.run_for(kSecond);
    const uint64_t number = client.number_with({0, 1});
    cluster.node_fabric(1).pause();
    const auto put = client.begin_put(0, {{number, 1}}, 4 * kSecond);
    client.damage(0, number, offset);
    cluster.node_fabric(1).resume();
    const auto results = client.results(put);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].code, Code::kAborted);
    EXPECT_FALSE(client.is_live(1, number));
  }
}

TEST(FleetList, SecondPutOfAKeyWaitsForTheFirst) {
  SimClusterOptions options = three_nodes();
  options.node.lease_ms = 5'000;
  SimCluster cluster(16, options);
  RawClient client(cluster);
  RawClient other(cluster);
  client.run_for(kSecond);
  const uint64_t number = client.number_with({0, 1});
  cluster.node_fabric(1).pause();
  const auto first = client.begin_put(0, {{number, 1}}, 4 * kSecond);
  const auto second = other.begin_put(0, {{number, 2}}, 4 * kSecond);
  client.run_for(100 * kMillisecond);
  EXPECT_TRUE(client.holds(0, number, 1)) << "the second has not begun";
  cluster.node_fabric(1).resume();
  EXPECT_EQ(client.results(first)[0].code, Code::kOk);
  EXPECT_EQ(other.results(second)[0].code, Code::kOk);
  EXPECT_LT(first->at_ns, second->at_ns);
  EXPECT_TRUE(client.holds(1, number, 2));
}

// The test changes the slot's bytes behind the node's back.
TEST(FleetList, CorruptPageThatIsReportedIsRepairedFromTheOther) {
  SimCluster cluster(17, three_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  const auto set = client.set_of(client.key(1));
  for (const size_t node : set) {
    client.damage(node, 1);
    ASSERT_FALSE(client.read(node, 1));
    const auto reply = client.ask<ReportReply>(node, ReportRequest{{client.key(1)}});
    EXPECT_EQ(reply.dropped, 1u);
    EXPECT_TRUE(client.wait_for([&] { return client.holds(node, 1, 1); }, 100 * kMillisecond));
    const FleetStatus status = client.status(node).fleet;
    EXPECT_EQ(status.dropped, 1u);
    EXPECT_EQ(status.repaired, 1u);
    EXPECT_EQ(status.filled, 1u);
    EXPECT_EQ(status.filled_bytes, 256u);
    EXPECT_EQ(status.to_fill, 0u);
  }
}

TEST(FleetList, ReportOfAGoodPageChangesNothing) {
  SimCluster cluster(18, three_nodes());
  RawClient client(cluster);
  settle(client);
  ASSERT_EQ(client.put(1, 1).code, Code::kOk);
  const size_t node = client.set_of(client.key(1))[1];
  EXPECT_EQ(client.ask<ReportReply>(node, ReportRequest{{client.key(1), client.key(2)}}).dropped,
            0u);
  EXPECT_TRUE(client.holds(node, 1, 1));
}

// Each evicts its own: what one has evicted does not come back to it, whatever the others hold.
TEST(FleetList, EvictedPageIsNotFilledAgain) {
  SimCluster cluster(19, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t first = client.number_with({0, 1});
  ASSERT_EQ(client.put(first, 1).code, Code::kOk);
  uint64_t number = 0;
  for (int i = 0; i < 40; ++i) {
    number = client.number_with({1, 2}, number + 1);
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  }
  ASSERT_FALSE(client.read(1, first));
  ASSERT_TRUE(client.holds(0, first, 1));
  cluster.cut_links();  // each new link begins a fill
  client.run_for(kSecond);
  EXPECT_FALSE(client.read(1, first));
}

}  // namespace
}  // namespace farpage
