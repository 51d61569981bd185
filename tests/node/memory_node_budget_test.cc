// Memory that clients together take at a node: refused beyond its budget, and given back in full.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <random>

#include "node/clients/client_budget.h"
#include "node/clients/push_path.h"
#include "pagetable/touch_log.h"
#include "tests/node/sim_node.h"
#include "tests/support/seeds.h"
#include "transport/forwarding_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kEach = 64 * kKiB;  // a SimClient's staging
constexpr uint64_t kSlowNs = 50 * kMillisecond;
const HelloRequest kHello = {kControlProtocol, kPageFormat, kEach};
const HelloRequest kReaders = {kControlProtocol, kPageFormat, 0};

NodeOptions for_clients(uint64_t clients) {
  NodeOptions options = SimNode::small_options();
  options.max_staging_bytes = kEach;
  options.staging_budget_bytes = clients * kEach;
  return options;
}

Refusal refusal_of(const Reply& reply) {
  const auto* refusal = std::get_if<Refusal>(&reply);
  return refusal == nullptr ? Refusal{Code::kOk, {}} : *refusal;
}

ClientId stranger(SimNode& node) {
  return node.service().connected().value();
}

ClientBudgetStatus budget_of(SimNode& node) {
  const ClientId asking = stranger(node);
  const ClientBudgetStatus budget = node.status(asking).budget;
  node.service().disconnected(asking);
  return budget;
}

TEST(MemoryNodeBudget, StagingBeyondTheSumIsRefusedWithWhatToDo) {
  SimNode node(for_clients(2));
  const SimClient first(node);
  const SimClient second(node);
  const Refusal refused = refusal_of(node.ask(stranger(node), kHello));
  EXPECT_EQ(refused.code, Code::kExhausted) << "it may come back";
  for (const char* part :
       {"64 KiB of staging", "128 KiB of the 128 KiB", "node.staging_budget_bytes",
        "lower client.staging_bytes", "client.staging_bytes = 0"}) {
    EXPECT_NE(refused.message.find(part), std::string::npos) << refused.message;
  }
  const ClientBudgetStatus budget = budget_of(node);
  EXPECT_EQ(budget.bytes, 2 * kEach);
  EXPECT_EQ(budget.granted_bytes, 2 * kEach);
  EXPECT_EQ(budget.refused, 1u);
}

TEST(MemoryNodeBudget, WhoWasRefusedGetsInOnTheSameConnection) {
  SimNode node(for_clients(1));
  const SimClient first(node);
  const ClientId waiting = stranger(node);
  EXPECT_EQ(refusal_of(node.ask(waiting, kHello)).code, Code::kExhausted);
  node.service().disconnected(first.id());
  node.run_for(kMillisecond);
  EXPECT_EQ(refusal_of(node.ask(waiting, kHello)).code, Code::kOk);
}

TEST(MemoryNodeBudget, AClientThatOnlyReadsGetsInWhenAllIsTaken) {
  SimNode node(for_clients(1));
  const SimClient hog(node);
  const ClientId reader = stranger(node);
  ASSERT_EQ(refusal_of(node.ask(reader, kReaders)).code, Code::kOk);
  for (uint64_t lane = 0; lane < node.options().max_lanes; ++lane) {
    ASSERT_EQ(refusal_of(node.ask(reader, OpenLaneRequest{})).code, Code::kOk) << lane;
  }
  EXPECT_EQ(budget_of(node).granted_bytes, kEach) << "a log is a client's own, and a lane is none";
}

TEST(MemoryNodeBudget, ComesBackOnceTheMemoryIsGoneAndNoSooner) {
  SimNode node(for_clients(1));
  const SimClient first(node);
  node.set_offload_ns(kSlowNs);
  node.service().disconnected(first.id());
  node.run_for(kSlowNs - 1);
  ASSERT_EQ(node.held().memories(), 1);
  EXPECT_EQ(budget_of(node).granted_bytes, kEach);
  node.run_for(1);
  ASSERT_EQ(node.held().memories(), 0);
  EXPECT_EQ(budget_of(node).granted_bytes, 0u);
}

TEST(MemoryNodeBudget, IsTakenBeforeAnythingIsMade) {
  SimNode node(for_clients(1));
  node.set_offload_ns(kSlowNs);
  const ClientId first = stranger(node);
  node.service().handle(first, kHello, [](const Reply&) {});
  EXPECT_EQ(budget_of(node).granted_bytes, kEach);
  EXPECT_EQ(refusal_of(node.ask(stranger(node), kHello)).code, Code::kExhausted);
  node.service().disconnected(first);
  node.run_for(kSecond);
  EXPECT_EQ(budget_of(node).granted_bytes, 0u) << "of a client that went before it was made";
}

// Of a node whose memory cannot be exported, or whose channels cannot be offered.
class FailingFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    if (fails_offers) return fail(Code::kExhausted, "no channel");
    return ForwardingFabric::offer_channel(purpose);
  }
  Result<RegionExport> export_region(const Region& region) override {
    if (fails_exports) return fail(Code::kExhausted, "no export");
    return ForwardingFabric::export_region(region);
  }
  bool fails_offers = false;
  bool fails_exports = false;
};

TEST(MemoryNodeBudget, ComesBackWhenTheMemoryCannotBeMade) {
  const TempDir dir;
  sim::World world(1);
  sim::SimFabric sim(world, {});
  FailingFabric fabric(sim);
  NodeOptions options = for_clients(1);
  options.state = dir / "node.state";
  const auto node = make_memory_node(options, sim.runtime(), fabric).value();
  for (const bool early : {true, false}) {
    fabric.fails_offers = early;
    fabric.fails_exports = !early;
    const ClientId client = node->connected().value();
    std::optional<Reply> answer;
    node->handle(client, kHello, [&](Reply reply) { answer = std::move(reply); });
    world.run_until(world.now_ns() + kMillisecond);
    ASSERT_TRUE(answer);
    EXPECT_EQ(refusal_of(*answer).code, Code::kExhausted);
    EXPECT_EQ(node->status().budget.granted_bytes, 0u);
    EXPECT_EQ(node->status().budget.refused, 0u);
  }
}

// A node that has begun anew takes no put, so that requests wait.
TEST(MemoryNodeBudget, RequestsThatWaitAreCounted) {
  SimNode node(for_clients(1));
  node.restart();
  const SimClient hog(node);
  const ClientId client = stranger(node);
  ASSERT_EQ(refusal_of(node.ask(client, kReaders)).code, Code::kOk);
  RemoveRequest remove;
  remove.patience_ns = 10 * kSecond;
  for (uint64_t key = 0; key < kMaxRemoveKeys; ++key) remove.keys.push_back(sim_key(key));
  int answered = 0;
  node.service().handle(client, remove, [&](const Reply&) { ++answered; });
  ASSERT_EQ(answered, 0) << "within its own bytes";
  const Refusal refused = refusal_of(node.ask(client, remove));
  EXPECT_EQ(refused.code, Code::kExhausted);
  EXPECT_NE(refused.message.find("a request that waits needs"), std::string::npos)
      << refused.message;
  node.run_for(kSecond);
  EXPECT_EQ(answered, 1);
  EXPECT_EQ(refusal_of(node.ask(client, remove)).code, Code::kOk) << "they are given back";
}

// With a landing that comes as a descriptor, and so is memory of the node's own host.
TEST(MemoryNodeBudget, PushLanesAreCountedAndLandingsOfThisHost) {
  SimNode node(for_clients(4));
  SimClient client(node);
  const uint64_t before = budget_of(node).granted_bytes;
  OfferedTarget offered;
  Region landing;
  std::optional<Reply> answer;
  const auto begin = [&](bool comes_as_descriptor) {
    offered = node.client_fabric().offer_channel(ChannelPurpose::kStage).value();
    landing = offered.target->allocate_writable(kEach).value();
    OpenPushRequest request;
    request.offer = std::move(offered.offer);
    request.landing = node.client_fabric().export_region(landing).value();
    if (comes_as_descriptor) {
      request.landing.fd = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
    answer.reset();
    node.service().handle(client.id(), std::move(request),
                          [&](Reply reply) { answer = std::move(reply); });
  };
  const auto opens = [&] {
    node.run_for(kMillisecond);
    return answer && std::holds_alternative<OpenPushReply>(*answer);
  };
  const uint64_t of_its_own = (kOwnBytesOfClient - kTouchLogBytes) / PushPath::kMostQueuedBytes;
  for (uint64_t lane = 0; lane < of_its_own; ++lane) {
    begin(false);
    ASSERT_TRUE(opens());
  }
  EXPECT_EQ(budget_of(node).granted_bytes, before);
  begin(false);
  ASSERT_TRUE(opens());
  const uint64_t with_lane = before + PushPath::kMostQueuedBytes;
  EXPECT_EQ(budget_of(node).granted_bytes, with_lane);

  // 64 KiB of staging and 80 of that lane leave 112 of 256, and this one takes 144.
  begin(true);
  ASSERT_TRUE(answer);
  EXPECT_EQ(refusal_of(*answer).code, Code::kExhausted);
  EXPECT_NE(refusal_of(*answer).message.find("a push lane needs 144 KiB"), std::string::npos)
      << refusal_of(*answer).message;
  begin(false);
  EXPECT_FALSE(answer);
  EXPECT_EQ(budget_of(node).granted_bytes, with_lane + PushPath::kMostQueuedBytes);
  node.service().disconnected(client.id());
  node.run_for(kSecond);
  EXPECT_EQ(budget_of(node).granted_bytes, 0u) << "of one that was being opened, too";
}

// Clients come, are refused, open and replace lanes, and go, at any moment of what is made for
// them.
TEST(MemoryNodeBudget, NothingIsLostOrLentTwiceInTenThousandVisits) {
  const Seeds seeds = seeds_from_environment(1);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    NodeOptions options = for_clients(4);
    options.max_clients = 16;
    SimNode node(options);
    std::vector<ClientId> visitors;
    uint64_t refused = 0;
    for (int visit = 0; visit < 10'000;) {
      node.set_offload_ns(random() % (200 * kMicrosecond));
      const size_t one = visitors.empty() ? 0 : random() % visitors.size();
      switch (random() % 4) {
        case 0: {
          const auto client = node.service().connected();
          if (!client) break;
          ++visit;
          visitors.push_back(*client);
          const HelloRequest hello = random() % 4 == 0 ? kReaders : kHello;
          node.service().handle(*client, hello, [&refused](const Reply& reply) {
            refused += refusal_of(reply).code == Code::kExhausted ? 1 : 0;
          });
          break;
        }
        case 1:
          if (visitors.empty()) break;
          node.service().handle(visitors[one], OpenLaneRequest{random() % 8}, [](const Reply&) {});
          break;
        case 2:
          if (visitors.empty()) break;
          node.service().disconnected(visitors[one]);
          visitors.erase(visitors.begin() + static_cast<ptrdiff_t>(one));
          break;
        default:
          node.run_for(random() % (100 * kMicrosecond));
      }
    }
    for (const ClientId client : visitors) node.service().disconnected(client);
    node.set_offload_ns(0);
    node.run_for(kSecond);
    const ClientBudgetStatus budget = budget_of(node);
    EXPECT_EQ(budget.granted_bytes, 0u);
    EXPECT_EQ(node.held().memories(), 0);
    EXPECT_EQ(node.held().channels(), 0);
    EXPECT_GT(refused, 100u);
    EXPECT_GE(budget.refused, refused);
    // All of it is there again.
    std::vector<std::unique_ptr<SimClient>> all;
    for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<SimClient>(node));
  }
}

}  // namespace
}  // namespace farpage
