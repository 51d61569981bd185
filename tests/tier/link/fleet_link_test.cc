#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/tier/link/fleet_links.h"

namespace farpage {
namespace {

TEST_F(FleetLinks, LinksOfMembersThatHaveLeftEndAndAreDialledNoMore) {
  constexpr uint64_t kEpochs = 200;
  enter(1, {1, 1001});
  join();
  for (uint64_t number = 2; number <= kEpochs; ++number) {
    node(1000 + number - 1).answers = false;
    enter(number, {1, 1000 + number});
    run_for(2 * kViewNs);
    ASSERT_EQ(link_->view()->epoch.number, number);
    use_all();
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
  use_all();
  const auto second = link_to(2);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_NE(second->view(), nullptr);
  EXPECT_EQ(link_->view()->links[1], second);
}

TEST_F(FleetLinks, LostLinkIsReturningForHalfASecondAtMost) {
  enter(1, {1, 2});
  node(2).lease_ns = kViewNs;
  join();
  const auto link = link_to(2);
  node(2).answers = false;
  while (link->view()->connected) {
    EXPECT_TRUE(link->is_returning(world_.now_ns()));
    run_for(kMillisecond);
  }
  const uint64_t lost_ns = world_.now_ns();
  run_for(495 * kMillisecond);  // the dial lasts for longer
  EXPECT_TRUE(link->is_returning(world_.now_ns()));
  world_.run_until(lost_ns + 501 * kMillisecond);
  EXPECT_FALSE(link->is_returning(world_.now_ns()));
  node(2).answers = true;
  run_for(10 * kSecond);
  ASSERT_TRUE(link->view()->connected);
  EXPECT_TRUE(link->is_returning(world_.now_ns())) << "it may be lost at any time";
}

TEST_F(FleetLinks, LinkThatRestsOrHasEndedIsNotReturning) {
  rest_ms_ = 1'000;
  enter(1, {1, 2});
  join();
  const auto rests = link_to(2);
  EXPECT_TRUE(rests->is_returning(world_.now_ns()));
  for (int i = 0; i < 20; ++i) {
    run_for(kSecond / 4);
    link_to(1)->use();
  }
  ASSERT_TRUE(rests->is_unused());
  EXPECT_FALSE(rests->is_returning(world_.now_ns()));
  const auto ends = link_to(1);
  EXPECT_TRUE(ends->is_returning(world_.now_ns()));
  link_->stop();
  EXPECT_FALSE(ends->is_returning(world_.now_ns()));
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
  EXPECT_EQ(node(3).dials, 0u);
  use_all();
  EXPECT_NE(link_to(3)->view(), nullptr);
  EXPECT_EQ(register_.reads, reads);
  EXPECT_EQ(node(1).asked, 1u);
}

// And not with its next renewal.
TEST_F(ToldEpochs, ComesAtOnceFromANodeThatEntersIt) {
  join();
  run_for(4 * kViewNs);
  ASSERT_EQ(node(1).waiting.size(), 1u);
  EXPECT_TRUE(node(2).waiting.empty()) << "it tells of no view";
  tell(2, {1, 3});
  std::exchange(node(1).waiting, {}).front()(Reply(EpochReply{node(1).view}));
  run_for(10 * kMicrosecond);
  EXPECT_EQ(link_->view()->epoch, epoch(2, {1, 3}));
  run_for(kRenewalNs);
  EXPECT_EQ(node(1).waiting.size(), 1u) << "for the next one";
}

// It was asked for at any time before.
TEST_F(ToldEpochs, AnswerThatWaitedExtendsNoView) {
  join();
  run_for(4 * kViewNs);
  ASSERT_EQ(node(1).waiting.size(), 1u);
  const uint64_t ends_ns = link_->view()->valid_until_ns;
  register_.answers = false;
  node(1).answers = node(2).answers = false;
  std::exchange(node(1).waiting, {}).front()(Reply(EpochReply{tag(2, {1, 3}), 0}));
  run_for(kMillisecond);
  EXPECT_EQ(number(), 1u) << "nobody has told the members";
  EXPECT_EQ(link_->view()->valid_until_ns, ends_ns);
}

// Its run is not the one that the epoch names: what is reached may be of another fleet.
TEST_F(ToldEpochs, MemberOfAnotherRunMakesNoClientReachable) {
  join();
  run_for(kViewNs);
  EXPECT_TRUE(link_->reachable());
  register_.now.epoch.number = 2;
  for (Member& member : register_.now.epoch.members) member.incarnation += 1'000;
  node(1).view = node(2).view = {};
  while (number() == 1) run_for(kMillisecond);
  EXPECT_TRUE(is_valid());
  EXPECT_FALSE(link_->reachable());
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

}  // namespace
}  // namespace farpage
