#include "tier/link/fleet_link.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/tier/staging/offered_stagings.h"

namespace farpage {
namespace {

constexpr uint64_t kViewNs = 100 * kMillisecond;
constexpr uint64_t kDialNs = 2 * kSecond;  // of a host that swallows what is sent

// A register that says what the test says.
class ToldRegister final : public EpochRegister {
 public:
  explicit ToldRegister(Runtime& runtime) : runtime_(runtime) {}
  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    runtime_.after(kMicrosecond, [this, done = std::move(done)] { done(now); });
  }
  void replace(uint64_t, Epoch, std::function<void(Result<void>)>) override {}
  void confirm(NodeId, uint64_t, std::function<void(Result<void>)>) override {}
  RegisteredEpoch now;

 private:
  Runtime& runtime_;
};

// One node, and the way there.
class OneNode final : public ControlDialer {
 public:
  OneNode(sim::SimFabric& fabric, NodeId node)
      : runtime_(fabric.runtime()), node_(node), stagings_(fabric) {}

  void dial(DialCallback done) override {
    ++dials;
    runtime_.after(answers ? kMicrosecond : kDialNs, [this, done = std::move(done)] {
      if (!answers) return done(fail(Code::kTimeout, "no answer in time"));
      done(std::make_shared<Link>(*this));
    });
  }

  bool answers = true;
  uint64_t dials = 0;
  EpochTag membership;

 private:
  struct Link final : ControlLink {
    explicit Link(OneNode& of) : node(of) {}
    void call(Request request, ReplyCallback done) override {
      const bool is_hello = std::holds_alternative<HelloRequest>(request);
      node.runtime_.after(
          0, [&at = node, is_hello, done = std::move(done)] { done(at.answer(is_hello)); });
    }
    void close() override {}
    const Peer& peer() const override { return nowhere; }
    OneNode& node;
    const Peer nowhere;
  };

  Result<Reply> answer(bool is_hello) {
    if (!answers) return fail(Code::kUnavailable, "gone");
    if (!is_hello) return Reply(RenewReply{1000 + node_});
    HelloReply hello;
    hello.epoch = 1;
    hello.incarnation = 1000 + node_;
    hello.reuse_ns = kMillisecond;
    hello.lease_ns = kSecond;
    hello.page_bytes = 512;
    hello.slots = 16;
    hello.buckets = 4;
    hello.node = node_;
    hello.membership = membership;
    stagings_.offer(hello);
    return Reply(std::move(hello));
  }

  Runtime& runtime_;
  const NodeId node_;
  OfferedStagings stagings_;
};

class FleetLinks : public testing::Test {
 protected:
  ~FleetLinks() override {
    link_->stop();
    run_for(10 * kSecond);
  }

  OneNode& node(NodeId id) {
    auto& found = nodes_[id];
    if (!found) found = std::make_unique<OneNode>(fabric_, id);
    return *found;
  }
  void run_for(uint64_t ns) { world_.run_until(world_.now_ns() + ns); }
  static Epoch epoch(uint64_t number, const std::vector<NodeId>& nodes, bool registered = true) {
    Epoch epoch{number, 1, 1, 512, {}};
    for (const NodeId id : nodes) epoch.members.push_back({id, registered ? 1000 + id : 0});
    epoch.give_slots();
    return epoch;
  }
  void enter(uint64_t number, const std::vector<NodeId>& nodes) {
    register_.now = {};
    register_.now.epoch = epoch(number, nodes);
    register_.now.confirmed = nodes;
  }
  void make(const Epoch& list, bool registered) {
    Fleet fleet;
    fleet.list = list;
    fleet.epochs = registered ? &register_ : nullptr;
    fleet.view_ns = registered ? kViewNs : 0;
    fleet.dialer = [this](NodeId id) -> ControlDialer& { return node(id); };
    ClientOptions options;
    options.staging_bytes = 0;
    link_ = std::make_shared<FleetLink>(options, fabric_.runtime(), fabric_, fleet);
  }
  void join() {
    make(register_.now.epoch, true);
    ASSERT_TRUE(link_->connect());
  }
  std::shared_ptr<NodeSession> link_to(NodeId id) {
    for (const auto& link : link_->links()) {
      if (link->peer() == id) return link;
    }
    return nullptr;
  }

  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  std::map<NodeId, std::unique_ptr<OneNode>> nodes_;
  ToldRegister register_{fabric_.runtime()};
  std::shared_ptr<FleetLink> link_;
};

TEST_F(FleetLinks, LinksOfMembersThatHaveLeftEndAndAreDialledNoMore) {
  constexpr uint64_t kEpochs = 200;
  enter(1, {1, 1001});
  join();
  for (uint64_t number = 2; number <= kEpochs; ++number) {
    node(1000 + number - 1).answers = false;
    enter(number, {1, 1000 + number});
    run_for(2 * kViewNs);
    ASSERT_EQ(link_->view()->epoch.number, number);
    ASSERT_LE(link_->links().size(), 3u);
  }
  run_for(kViewNs);
  EXPECT_EQ(link_->links().size(), 2u);
  run_for(10 * kSecond);  // until the last dial has come to nothing
  std::map<NodeId, uint64_t> before;
  for (const auto& [id, each] : nodes_) before[id] = each->dials;
  run_for(10 * kSecond);
  for (const auto& [id, each] : nodes_) EXPECT_EQ(each->dials, before[id]) << id;
}

TEST_F(FleetLinks, LinkLastsAsLongAsAViewThatNamesItsMember) {
  enter(1, {1, 2});
  join();
  run_for(kViewNs / 8);
  const auto former = link_->view();
  const auto left = link_to(2);
  enter(2, {1, 3});
  while (link_->view() == former) run_for(kMillisecond);
  const uint64_t ends = former->valid_until_ns.load();
  ASSERT_GT(ends, world_.now_ns());
  world_.run_until(ends - 1);
  EXPECT_EQ(link_to(2), left);
  EXPECT_NE(left->view(), nullptr);
  world_.run_until(ends + kMicrosecond);
  EXPECT_EQ(link_to(2), nullptr);
  EXPECT_EQ(left->view(), nullptr);
  left->stop();  // once more does nothing
}

TEST_F(FleetLinks, MemberThatComesBackBeforeItsLinkEndsKeepsIt) {
  enter(1, {1, 2});
  join();
  const auto first = link_to(2);
  enter(2, {1});
  while (link_->view()->epoch.number != 2) run_for(kMillisecond);
  enter(3, {1, 2});
  link_->look_again();
  run_for(10 * kMicrosecond);
  ASSERT_EQ(link_->view()->epoch.number, 3u);
  run_for(10 * kViewNs);
  EXPECT_EQ(link_to(2), first);
  EXPECT_NE(first->view(), nullptr);
}

TEST_F(FleetLinks, MemberThatComesBackLaterHasANewLink) {
  enter(1, {1, 2});
  join();
  const auto first = link_to(2);
  enter(2, {1});
  run_for(3 * kViewNs);
  ASSERT_EQ(link_to(2), nullptr);
  enter(3, {1, 2});
  run_for(kViewNs);
  const auto second = link_to(2);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_NE(second->view(), nullptr);
  EXPECT_EQ(link_->view()->links[1], second);
}

// A rack of them, say.
TEST_F(FleetLinks, ConnectWaitsForTheDeadButAMomentOnceOneHasAnswered) {
  std::vector<NodeId> members = {1};
  for (NodeId id = 2; id <= 161; ++id) {
    members.push_back(id);
    node(id).answers = false;
  }
  const Epoch list = epoch(1, members, false);
  node(1).membership = {1, list.identity()};
  make(list, false);
  const uint64_t began = world_.now_ns();
  ASSERT_TRUE(link_->connect());
  EXPECT_LE(world_.now_ns() - began, kSecond);
}

TEST_F(FleetLinks, ConnectWaitsForTheFirstTryOfNodesThatLive) {
  const Epoch list = epoch(1, {1, 2, 3}, false);
  for (NodeId id = 1; id <= 3; ++id) node(id).membership = {1, list.identity()};
  make(list, false);
  ASSERT_TRUE(link_->connect());
  for (const auto& link : link_->links()) EXPECT_NE(link->view(), nullptr);
}

}  // namespace
}  // namespace farpage
