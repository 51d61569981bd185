// Objects that a node makes for a client and ends with it: neither holds up its other clients.
#include <gtest/gtest.h>

#include <atomic>

#include "net/runtime/asio_runtime.h"
#include "tests/node/sim_node.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kSlowNs = 50 * kMillisecond;
constexpr uint64_t kStagingBytes = 64 * kKiB;
const HelloRequest kHello = {kControlProtocol, kPageFormat, kStagingBytes};

using Answer = std::shared_ptr<std::optional<Reply>>;

Answer begin(SimNode& node, ClientId client, Request request) {
  auto answer = std::make_shared<std::optional<Reply>>();
  node.service().handle(client, std::move(request),
                        [answer](Reply reply) { answer->emplace(std::move(reply)); });
  return answer;
}

Code code_of(const Reply& reply) {
  const auto* refusal = std::get_if<Refusal>(&reply);
  return refusal == nullptr ? Code::kOk : refusal->code;
}

class SlowNode : public ::testing::Test {
 protected:
  ClientId stranger() { return node_.service().connected().value(); }
  void expect_renewal_answered() {
    EXPECT_TRUE(std::holds_alternative<RenewReply>(node_.ask(client_.id(), RenewRequest{})));
  }

  SimNode node_;
  SimClient client_{node_};
};

TEST_F(SlowNode, AHelloThatIsBeingPreparedHoldsUpNobodysRenewal) {
  node_.set_offload_ns(kSlowNs);
  const Answer hello = begin(node_, stranger(), kHello);
  expect_renewal_answered();
  ASSERT_FALSE(hello->has_value()) << "its staging is made beside the node's thread";
  node_.run_for(kSlowNs - 1);
  expect_renewal_answered();
  ASSERT_FALSE(hello->has_value());
  node_.run_for(1);
  ASSERT_TRUE(hello->has_value());
  EXPECT_TRUE(std::holds_alternative<HelloReply>(**hello));
}

TEST_F(SlowNode, ALaneThatIsBeingMadeHoldsUpNobodysRenewal) {
  node_.set_offload_ns(kSlowNs);
  const Answer lane = begin(node_, client_.id(), OpenLaneRequest{});
  expect_renewal_answered();
  ASSERT_FALSE(lane->has_value());
  node_.run_for(kSlowNs);
  ASSERT_TRUE(lane->has_value());
  EXPECT_TRUE(std::holds_alternative<OpenLaneReply>(**lane));
}

TEST_F(SlowNode, NothingIsEndedOnTheNodesThread) {
  const Answer lane = begin(node_, client_.id(), OpenLaneRequest{});
  node_.run_for(kMillisecond);
  node_.set_offload_ns(kSlowNs);
  const ClientId other = stranger();
  ASSERT_EQ(node_.held().channels(), 2);
  ASSERT_EQ(node_.held().memories(), 1);
  node_.service().disconnected(client_.id());
  node_.run_for(kSlowNs - 1);
  EXPECT_TRUE(node_.held().ended().empty());
  EXPECT_EQ(code_of(node_.ask(other, StatusRequest{})), Code::kOk);
  node_.run_for(1);
  EXPECT_EQ(node_.held().channels(), 0);
  EXPECT_EQ(node_.held().memories(), 0);
}

// Protocol rule 17: its queue pair is gone before the registration is.
TEST_F(SlowNode, AChannelEndsBeforeTheMemoryThatItsPeerWrites) {
  node_.service().disconnected(client_.id());
  node_.run_for(kMillisecond);
  EXPECT_EQ(node_.held().ended(), (std::vector<std::string>{"channel", "memory"}));
}

TEST_F(SlowNode, AReplacedLaneIsEndedBesideTheNodesThread) {
  const Answer lane = begin(node_, client_.id(), OpenLaneRequest{});
  node_.run_for(kMillisecond);
  node_.set_offload_ns(kSlowNs);
  const Answer next =
      begin(node_, client_.id(), OpenLaneRequest{std::get<OpenLaneReply>(**lane).lane});
  node_.run_for(kSlowNs - 1);
  EXPECT_TRUE(node_.held().ended().empty());
  node_.run_for(kSlowNs);
  EXPECT_EQ(node_.held().channels(), 2);
  EXPECT_EQ(node_.held().memories(), 1);
}

class GoingClient : public SlowNode, public ::testing::WithParamInterface<uint64_t> {};

// Before anything has been made, and on the nanosecond on which all has, but nobody was told.
INSTANTIATE_TEST_SUITE_P(, GoingClient, ::testing::Values(0, kSlowNs));

TEST_P(GoingClient, LeavesNothingOfWhatIsMadeForIt) {
  const bool made = GetParam() == kSlowNs;
  node_.set_offload_ns(kSlowNs);
  const ClientId greeted = stranger();
  const Answer hello = begin(node_, greeted, kHello);
  const Answer lane = begin(node_, client_.id(), OpenLaneRequest{});
  int when_gone = 0;
  node_.world().after(GetParam(), [&] {
    when_gone = node_.held().memories();
    node_.service().disconnected(greeted);
    node_.service().disconnected(client_.id());
  });
  node_.run_for(GetParam() + kSlowNs - 1);
  EXPECT_TRUE(node_.held().ended().empty()) << "nor is anything ended on the node's thread";
  node_.run_for(kSecond);
  EXPECT_EQ(when_gone, made ? 2 : 1) << "a staging beside the first one; a lane has no memory";
  EXPECT_FALSE(hello->has_value()) << "who has gone is told nothing";
  EXPECT_FALSE(lane->has_value());
  EXPECT_EQ(node_.held().memories(), 0);
  EXPECT_EQ(node_.held().channels(), 0);
  // A channel and its memory for each client, and the lane's channel.
  EXPECT_EQ(node_.held().ended().size(), made ? 5u : 2u)
      << "nothing is made for a client that has gone by then";
}

TEST_P(GoingClient, NeitherDoesANodeThatEnds) {
  node_.set_offload_ns(kSlowNs);
  const Answer hello = begin(node_, stranger(), kHello);
  node_.set_offload_ns(2 * kSlowNs);
  const Answer later = begin(node_, stranger(), kHello);
  bool stopped = false;
  node_.world().after(GetParam(), [&] {
    node_.stop();
    stopped = true;
    EXPECT_EQ(node_.held().memories(), 0);
    EXPECT_EQ(node_.held().channels(), 0);
  });
  node_.run_for(kSecond);
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(hello->has_value());
  EXPECT_FALSE(later->has_value());
}

TEST_F(SlowNode, BeforeItsHelloIsAnsweredAClientIsNone) {
  node_.set_offload_ns(kSlowNs);
  const ClientId client = stranger();
  const Answer hello = begin(node_, client, kHello);
  EXPECT_EQ(node_.status(client).clients, 1u);
  EXPECT_EQ(code_of(node_.ask(client, kHello)), Code::kProtocol);
  EXPECT_EQ(code_of(node_.ask(client, HelloRequest{})), Code::kProtocol);
  EXPECT_EQ(code_of(node_.ask(client, RenewRequest{})), Code::kProtocol);
  EXPECT_EQ(code_of(node_.ask(client, OpenLaneRequest{})), Code::kProtocol);
  node_.run_for(kSlowNs);
  ASSERT_TRUE(hello->has_value());
  EXPECT_EQ(code_of(**hello), Code::kOk);
  EXPECT_EQ(node_.status(client).clients, 2u);
}

TEST(SlowNodeLimits, LanesCountWhileTheyAreMade) {
  NodeOptions options = SimNode::small_options();
  options.max_lanes = 2;
  SimNode node(options);
  SimClient client(node);
  node.set_offload_ns(kSlowNs);
  const Answer first = begin(node, client.id(), OpenLaneRequest{});
  const Answer second = begin(node, client.id(), OpenLaneRequest{});
  EXPECT_EQ(code_of(node.ask(client.id(), OpenLaneRequest{})), Code::kExhausted);
  node.run_for(kSlowNs);
  EXPECT_NE(std::get<OpenLaneReply>(first->value()).lane,
            std::get<OpenLaneReply>(second->value()).lane);
  EXPECT_EQ(code_of(node.ask(client.id(), OpenLaneRequest{})), Code::kExhausted);
}

// With a real thread, which is held inside of it.
TEST(SlowNodeInThreads, AStagingThatTakesLongHoldsUpNobodysRenewal) {
  TempDir dir;
  NodeOptions options = SimNode::small_options();
  options.state = dir / "node.state";
  AsioRuntime runtime;
  const auto fabric = shm::make_shm_fabric();
  CountingFabric counted(*fabric);
  std::atomic<bool> inside = false;
  std::atomic<bool> go_on = false;
  auto node = make_memory_node(options, runtime, counted).value();
  const auto await = [&](const std::function<bool()>& ready) {
    return runtime.wait_until(runtime.clock().now_ns() + 20 * kSecond, ready);
  };
  std::atomic<bool> welcome = false;
  std::atomic<bool> renewed = false;
  ClientId client = 0;
  runtime.run([&] {
    client = node->connected().value();
    node->handle(client, HelloRequest{.node = 1}, [](const Reply&) {});  // needs no memory
  });
  counted.before_allocating = [&] {
    inside = true;
    runtime.notify();
    runtime.wait_until(kNever, [&] { return go_on.load(); });
  };
  runtime.run([&] {
    node->handle(node->connected().value(), kHello, [&](const Reply& reply) {
      welcome = std::holds_alternative<HelloReply>(reply);
      runtime.notify();
    });
  });
  ASSERT_TRUE(await([&] { return inside.load(); }));
  runtime.run([&] {
    node->handle(client, RenewRequest{},
                 [&](const Reply& reply) { renewed = std::holds_alternative<RenewReply>(reply); });
  });
  EXPECT_TRUE(renewed);
  EXPECT_FALSE(welcome);
  go_on = true;
  runtime.notify();
  EXPECT_TRUE(await([&] { return welcome.load(); }));
  runtime.run([&] { node.reset(); });
  EXPECT_EQ(counted.memories(), 0);
  EXPECT_EQ(counted.channels(), 0);
}

}  // namespace
}  // namespace farpage
