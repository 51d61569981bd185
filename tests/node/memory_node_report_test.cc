#include <gtest/gtest.h>

#include "tests/node/sim_node.h"
#include "transport/forwarding_fabric.h"
#include "transport/traffic.h"

namespace farpage {
namespace {

void renew(SimNode& node, const SimClient& client, const VerdictCounts& verdicts) {
  const Reply reply = node.ask(client.id(), RenewRequest{client.hello.incarnation, verdicts});
  EXPECT_TRUE(std::holds_alternative<RenewReply>(reply));
}

TEST(MemoryNodeReport, SumsTheLastReportOfEachClient) {
  SimNode node;
  const SimClient first(node);
  const SimClient second(node);
  renew(node, first, {1, 10, 100, 2, 3, 4, 5, 6, 7});
  renew(node, first, {2, 20, 200, 3, 3, 4, 5, 6, 7});  // cumulative: this alone counts
  renew(node, second, {5, 50, 500, 10, 20, 30, 40, 50, 60});
  const StatusReply status = node.status(first.id());
  EXPECT_EQ(status.renewals, 3u);
  EXPECT_EQ(status.verdicts.fetches, 7u);
  EXPECT_EQ(status.verdicts.ready, 70u);
  EXPECT_EQ(status.verdicts.ready_bytes, 700u);
  EXPECT_EQ(status.verdicts.miss, 13u);
  EXPECT_EQ(status.verdicts.stale, 23u);
  EXPECT_EQ(status.verdicts.corrupt, 34u);
  EXPECT_EQ(status.verdicts.stalled, 45u);
  EXPECT_EQ(status.verdicts.unreachable, 56u);
  EXPECT_EQ(status.verdicts.slower, 67u);
}

TEST(MemoryNodeReport, CountsOfAClientThatHasGoneStay) {
  SimNode node;
  const SimClient stays(node);
  {
    const SimClient goes(node);
    renew(node, goes, {.ready = 7, .miss = 3});
    node.service().disconnected(goes.id());
  }
  EXPECT_EQ(node.status(stays.id()).verdicts.ready, 7u);
  const SimClient comes(node);
  renew(node, comes, {.ready = 1});
  EXPECT_EQ(node.status(stays.id()).verdicts.ready, 8u);
  EXPECT_EQ(node.status(stays.id()).verdicts.miss, 3u);
}

TEST(MemoryNodeReport, CountThatGoesBackIsIgnored) {
  SimNode node;
  const SimClient client(node);
  renew(node, client, {.ready = 100, .miss = 5});
  renew(node, client, {.ready = 1, .miss = 6});
  EXPECT_EQ(node.status(client.id()).verdicts.ready, 100u);
  EXPECT_EQ(node.status(client.id()).verdicts.miss, 6u);
  renew(node, client, {});
  EXPECT_EQ(node.status(client.id()).verdicts.ready, 100u);
  renew(node, client, {.ready = 101});
  EXPECT_EQ(node.status(client.id()).verdicts.ready, 101u);
}

TEST(MemoryNodeReport, BoastingClientsDoNotTurnTheSumsOver) {
  SimNode node;
  const SimClient honest(node);
  renew(node, honest, {.ready = 10});
  for (int i = 0; i < 3; ++i) {
    const SimClient boaster(node);
    renew(node, boaster, {.fetches = UINT64_MAX, .ready = UINT64_MAX - 1});
    EXPECT_EQ(node.status(honest.id()).verdicts.ready, UINT64_MAX);
    node.service().disconnected(boaster.id());
  }
  EXPECT_EQ(node.status(honest.id()).verdicts.ready, UINT64_MAX);
  EXPECT_EQ(node.status(honest.id()).verdicts.fetches, UINT64_MAX);
  EXPECT_EQ(node.status(honest.id()).verdicts.miss, 0u);
}

// A fabric that sees what passes, as one over a network does.
class SeeingFabric final : public ForwardingFabric, public TrafficSource, public PortSource {
 public:
  using ForwardingFabric::ForwardingFabric;

  std::vector<PathTraffic> traffic() const override { return paths; }
  std::vector<PortTraffic> ports() const override { return all_ports; }
  std::vector<PathTraffic> paths;
  std::vector<PortTraffic> all_ports;
};

TEST(MemoryNodeReport, TrafficIsToldWhereTheFabricSeesIt) {
  const TempDir dir;
  sim::World world(1);
  sim::SimFabric inner(world, {});
  SeeingFabric fabric(inner);
  NodeOptions options = SimNode::small_options();
  options.state = dir / "node.state";
  const auto node = make_memory_node(options, inner.runtime(), fabric).value();
  EXPECT_TRUE(node->status().sees_traffic);
  EXPECT_TRUE(node->status().traffic.empty());
  fabric.paths = {{"one", 1, 2, 3, 4, 5, 6}, {"two", 7, 8, 9, 10, 11, 12}};
  const StatusReply status = node->status();
  ASSERT_EQ(status.traffic.size(), 2u);
  EXPECT_EQ(status.traffic[0].path, "one");
  EXPECT_EQ(status.traffic[1].read_bytes, 9u);
  fabric.paths.resize(kMaxTrafficPaths + 10);
  EXPECT_EQ(node->status().traffic.size(), kMaxTrafficPaths) << "what a client would refuse";
  EXPECT_TRUE(node->status().ports.empty());
  fabric.all_ports.resize(kMaxTrafficPaths + 10, {.port = "nic", .immediates = 3});
  ASSERT_EQ(node->status().ports.size(), kMaxTrafficPaths);
  EXPECT_EQ(node->status().ports[0].port, "nic");
  EXPECT_EQ(node->status().ports[0].immediates, 3u);
}

TEST(MemoryNodeReport, FabricThatSeesNothingSaysSo) {
  SimNode node;
  const SimClient client(node);
  EXPECT_FALSE(node.status(client.id()).sees_traffic);
  EXPECT_TRUE(node.status(client.id()).traffic.empty());
}

}  // namespace
}  // namespace farpage
