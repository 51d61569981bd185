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
    ++reads;
    if (!answers) return;
    runtime_.after(kMicrosecond, [this, done = std::move(done)] { done(now); });
  }
  void replace(uint64_t, Epoch, std::function<void(Result<void>)>) override {}
  void confirm(NodeId, uint64_t, std::function<void(Result<void>)>) override {}
  RegisteredEpoch now;
  bool answers = true;
  uint64_t reads = 0;

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
  EpochTag view;     // that it tells of with renewals
  EpochReply epoch;  // that it answers with
  uint64_t asked = 0;
  uint64_t view_age_ns = 0;
  uint64_t lease_ns = kSecond;

 private:
  struct Link final : ControlLink {
    explicit Link(OneNode& of) : node(of) {}
    void call(Request request, ReplyCallback done) override {
      node.runtime_.after(0, [&at = node, kind = request.index(), done = std::move(done)] {
        done(at.answer(kind));
      });
    }
    void close() override {}
    const Peer& peer() const override { return nowhere; }
    OneNode& node;
    const Peer nowhere;
  };

  template <typename Kind>
  static bool is(size_t kind) {
    return Request(Kind{}).index() == kind;
  }

  Result<Reply> answer(size_t kind) {
    if (!answers) return fail(Code::kUnavailable, "gone");
    if (is<RenewRequest>(kind)) return Reply(RenewReply{1000 + node_, view, view_age_ns});
    if (is<EpochRequest>(kind)) {
      ++asked;
      return Reply(epoch);
    }
    HelloReply hello;
    hello.epoch = 1;
    hello.incarnation = 1000 + node_;
    hello.reuse_ns = kMillisecond;
    hello.lease_ns = lease_ns;
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
    fleet.heard_of = [this](uint64_t, NodeId id, const std::string& address) {
      heard_[id] = address;
    };
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
  std::map<NodeId, std::string> heard_;  // addresses
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

// Views that nodes tell of (protocol rule 12).
class ToldViews : public FleetLinks {
 protected:
  static constexpr uint64_t kRenewalNs = kViewNs / 8;  // of a client that fetches nothing

  ToldViews() {
    enter(1, {1, 2});
    for (const NodeId id : {1, 2}) node(id).lease_ns = 2 * kRenewalNs;
  }
  static EpochTag tag(uint64_t number, const std::vector<NodeId>& nodes) {
    return {number, epoch(number, nodes).identity()};
  }
  bool is_valid() const { return link_->view()->valid(world_.now_ns()); }
  // How long the view lasts once no node tells of it.
  uint64_t lasts_ns() {
    node(1).answers = false;
    const uint64_t begin = world_.now_ns();
    while (is_valid()) run_for(10 * kMicrosecond);
    return world_.now_ns() - begin;
  }
};

TEST_F(ToldViews, NobodyReadsTheRegisterWhileNodesTellOfTheirs) {
  node(1).view = tag(1, {1, 2});
  node(1).view_age_ns = kViewNs / 4;
  join();
  run_for(kViewNs);
  const uint64_t reads = register_.reads;
  for (int i = 0; i < 1000; ++i) {
    run_for(kViewNs / 10);
    ASSERT_TRUE(is_valid());
  }
  EXPECT_EQ(register_.reads, reads);
}

TEST_F(ToldViews, TheRegisterIsReadInTimeWhereNoNodeTells) {
  join();
  const uint64_t reads = register_.reads;
  for (int i = 0; i < 1000; ++i) {
    run_for(kViewNs / 10);
    ASSERT_TRUE(is_valid());
  }
  EXPECT_GE(register_.reads, reads + 100);
}

// From the sending of the node's read, and a drift of clocks less: not from the client's asking.
TEST_F(ToldViews, LastsAsLongAsTheNodesOwn) {
  constexpr uint64_t kAgeNs = 64 * kMillisecond;
  node(1).view = tag(1, {1, 2});
  node(1).view_age_ns = kAgeNs;
  join();
  register_.answers = false;
  run_for(4 * kViewNs);
  ASSERT_TRUE(is_valid());
  const uint64_t asked_at_most = kViewNs - kAgeNs - kAgeNs / 64;
  const uint64_t lasted = lasts_ns();
  EXPECT_LE(lasted, asked_at_most + 20 * kMicrosecond);
  EXPECT_GE(lasted, asked_at_most - kRenewalNs - 20 * kMicrosecond);
}

TEST_F(ToldViews, NoneOfAnotherEpochCounts) {
  node(1).view = {1, tag(1, {1, 2}).identity + 1};  // other members, say
  node(2).view = tag(0, {1, 2});
  join();
  register_.answers = false;
  run_for(2 * kViewNs);
  EXPECT_FALSE(is_valid());
}

TEST_F(ToldViews, NoneThatHasEndedCounts) {
  node(1).view = node(2).view = tag(1, {1, 2});
  node(1).view_age_ns = kViewNs;
  node(2).view_age_ns = UINT64_MAX;
  join();
  register_.answers = false;
  run_for(2 * kViewNs);
  EXPECT_FALSE(is_valid());
}

// A new epoch, of which a node tells.
class ToldEpochs : public ToldViews {
 protected:
  ToldEpochs() {
    node(1).view = tag(1, {1, 2});
    node(3).lease_ns = 2 * kRenewalNs;
  }
  // Node 1 is in this epoch from now on.
  void tell(uint64_t number, const std::vector<NodeId>& nodes) {
    const Epoch next = epoch(number, nodes);
    node(1).view = tag(number, nodes);
    node(1).epoch = {node(1).view, kMillisecond, next.replicas, next.seed, next.page_bytes, {}};
    for (const Member& member : next.members) {
      node(1).epoch.members.push_back({member.node, member.incarnation, member.leaving, member.slot,
                                       "host:" + std::to_string(member.node)});
    }
  }
  uint64_t number() const { return link_->view()->epoch.number; }
};

TEST_F(ToldEpochs, ComesFromTheNodeAndNotFromTheRegister) {
  join();
  run_for(4 * kViewNs);
  enter(2, {1, 3});
  const uint64_t reads = register_.reads;
  run_for(4 * kViewNs);
  ASSERT_EQ(number(), 1u) << "nobody has told";
  tell(2, {1, 3});
  run_for(kRenewalNs + kMillisecond);
  EXPECT_EQ(link_->view()->epoch, epoch(2, {1, 3}));
  EXPECT_EQ(heard_, (std::map<NodeId, std::string>{{1, "host:1"}, {3, "host:3"}}));
  run_for(10 * kViewNs);
  EXPECT_TRUE(is_valid());
  EXPECT_NE(link_to(3)->view(), nullptr);
  EXPECT_EQ(register_.reads, reads);
  EXPECT_EQ(node(1).asked, 1u);
}

TEST_F(ToldEpochs, LastsAsLongAsTheViewOfTheNodeThatTold) {
  constexpr uint64_t kAgeNs = 64 * kMillisecond;
  join();
  run_for(kViewNs);
  register_.answers = false;
  tell(2, {1, 3});
  node(1).epoch.view_age_ns = node(1).view_age_ns = kAgeNs;
  while (number() == 1) run_for(10 * kMicrosecond);
  EXPECT_LE(lasts_ns(), kViewNs - kAgeNs - kAgeNs / 64);
}

TEST_F(ToldEpochs, OneThatIsNotWhatItsIdentitySaysLeadsToTheRegister) {
  join();
  enter(2, {1, 3});
  tell(2, {1, 3});
  node(1).epoch.members[1].incarnation = 5;
  run_for(kRenewalNs + kMillisecond);
  EXPECT_EQ(link_->view()->epoch, epoch(2, {1, 3}));
}

TEST_F(ToldEpochs, OneThatCannotBeLeadsToTheRegister) {
  join();
  enter(2, {1, 3});
  tell(2, {1, 1});
  run_for(kRenewalNs + kMillisecond);
  EXPECT_EQ(link_->view()->epoch, epoch(2, {1, 3}));
}

TEST_F(ToldEpochs, NodeWhoseViewHasEndedMeanwhileLeadsToTheRegister) {
  for (const uint64_t age_ns : {uint64_t{0}, kViewNs, UINT64_MAX}) {
    const uint64_t next = register_.now.epoch.number + 1;
    if (next == 2) join();
    tell(next, {1, 3});
    node(1).epoch.view_age_ns = age_ns;
    if (age_ns == 0) node(1).epoch.view = {};
    enter(next, {1, 3});
    run_for(kRenewalNs + kMillisecond);
    EXPECT_EQ(number(), next) << age_ns;
  }
}

TEST_F(ToldEpochs, MemberWithoutAnAddressIsLookedUpInTheRegister) {
  join();
  run_for(kViewNs);
  const uint64_t reads = register_.reads;
  enter(2, {1, 3});
  tell(2, {1, 3});
  node(1).epoch.members[1].address = "";
  run_for(kRenewalNs + kMillisecond);
  EXPECT_EQ(number(), 2u);
  EXPECT_EQ(register_.reads, reads + 1);
  EXPECT_EQ(heard_, (std::map<NodeId, std::string>{{1, "host:1"}}));
}

// A node that is behind refuses messages too.
TEST_F(ToldEpochs, OneOfBeforeChangesNothing) {
  join();
  tell(3, {1, 2});
  run_for(kRenewalNs + kMillisecond);
  ASSERT_EQ(number(), 3u);
  tell(2, {1, 2, 3});
  const uint64_t reads = register_.reads;
  link_->look_again(*link_to(1));
  run_for(kMillisecond);
  EXPECT_EQ(node(1).asked, 2u);
  EXPECT_EQ(link_->view()->epoch, epoch(3, {1, 2}));
  EXPECT_EQ(register_.reads, reads);
}

// All links renew at once, and a node that has stopped answers nothing.
TEST_F(ToldEpochs, OneNodeIsAskedAtATime) {
  join();
  tell(2, {1, 3});
  for (int i = 0; i < 100; ++i) link_->look_again(*link_to(i % 2 == 0 ? 1 : 2));
  run_for(kMillisecond);
  EXPECT_EQ(number(), 2u);
  EXPECT_EQ(node(1).asked + node(2).asked, 1u);
}

TEST_F(ToldEpochs, MemberThatComesBackBeforeItsLinkEndsKeepsIt) {
  join();
  const auto first = link_to(2);
  tell(2, {1});
  while (number() != 2) run_for(kMillisecond);
  tell(3, {1, 2});
  while (number() != 3) run_for(kMillisecond);
  run_for(10 * kViewNs);
  EXPECT_EQ(link_to(2), first);
  EXPECT_NE(first->view(), nullptr);
}

// A message that a node refused says that it is in another epoch.
TEST_F(ToldEpochs, NodeThatRefusedIsAsked) {
  join();
  tell(2, {1, 3});
  node(1).view = {};
  link_->look_again(*link_to(1));
  run_for(kMillisecond);
  EXPECT_EQ(number(), 2u);
  EXPECT_EQ(node(1).asked, 1u);
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
