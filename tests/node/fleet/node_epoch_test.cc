#include "node/fleet/node_epoch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/node/fleet/one_register.h"

namespace farpage {
namespace {

constexpr uint64_t kView = 640 * kMillisecond;
constexpr Member kSelf = {7, 70, false, 788};
constexpr Member kOther = {8, 80, false, 2};

struct World {
  sim::World world{1};
  sim::SimFabric machine{world, {}};
  OneRegister epochs{world, {1, 1, 1, 512, {kOther}}};
  Fleet fleet;
  std::vector<uint64_t> entered;
  int left_out = 0;
  bool kills_at_once = true;
  std::optional<NodeEpoch> node;

  explicit World(uint64_t page_bytes = 512) {
    fleet.epochs = &epochs;
    fleet.view_ns = kView;
    node.emplace(machine.runtime(), fleet, Member{kSelf.node, kSelf.incarnation}, page_bytes,
                 NodeEpoch::Hooks{[this] {
                                    entered.push_back(node->epoch().number);
                                    if (kills_at_once) node->killed();
                                  },
                                  [this] { ++left_out; }});
    node->start();
  }
  uint64_t now() const { return world.now_ns(); }
  void run_for(uint64_t duration_ns) { world.run_until(world.now_ns() + duration_ns); }
};

// How long after a hint each of these members reads the register, in an epoch of this number.
std::vector<uint64_t> turns_ns(uint64_t members, uint64_t epoch, uint64_t view_ns = kView) {
  std::vector<uint64_t> turns;
  for (uint64_t self = 1; self <= members; ++self) {
    sim::World world{1};
    sim::SimFabric machine{world, {}};
    OneRegister epochs{world, {epoch, 1, 1, 512, {}}};
    for (uint64_t node = 1; node <= members; ++node) {
      epochs.current.epoch.members.push_back({node, 1, false, static_cast<uint16_t>(node - 1)});
      epochs.current.confirmed.push_back(node);
    }
    Fleet fleet;
    fleet.epochs = &epochs;
    fleet.view_ns = view_ns;
    NodeEpoch node(machine.runtime(), fleet, {self, 1, false, 0}, 512,
                   {[&] { node.killed(); }, [] {}});
    node.start();
    world.run_until(world.now_ns() + view_ns / 16);  // the next read is not due yet
    const int reads = epochs.reads;
    const uint64_t hinted_ns = world.now_ns();
    node.look();
    while (epochs.reads == reads) world.run_until(world.now_ns() + 10 * kMicrosecond);
    turns.push_back(world.now_ns() - hinted_ns);
  }
  return turns;
}

TEST(NodeEpoch, MembersOfASmallFleetReadAtOnceWhenTheyHearOfAnEpoch) {
  for (const uint64_t turn : turns_ns(16, 3)) EXPECT_LE(turn, 10 * kMicrosecond);
}

// Each tells all others as soon as it is in an epoch: without turns they would all ask at once.
TEST(NodeEpoch, MembersOfALargeFleetReadInTurns) {
  constexpr uint64_t kMembers = 64;
  constexpr uint64_t kLongView = 16 * kSecond;
  std::vector<uint64_t> turns = turns_ns(kMembers, 3, kLongView);
  const uint64_t first = turns[0];
  std::ranges::sort(turns);
  for (size_t i = 0; i < kMembers; ++i) {
    EXPECT_NEAR(turns[i], i / 16 * 4 * kMillisecond, 10 * kMicrosecond);
  }
  EXPECT_NE(turns_ns(kMembers, 3 + 16, kLongView)[0], first) << "another epoch, another turn";
}

// Whatever the fleet's size, and before the next read is due in any case.
TEST(NodeEpoch, TurnsTakeAnEighthOfAViewAtMost) {
  const std::vector<uint64_t> turns = turns_ns(256, 3, 80 * kMillisecond);
  EXPECT_LE(std::ranges::max(turns), 80 * kMillisecond / 8 + 10 * kMicrosecond);
  EXPECT_GE(std::ranges::max(turns), 80 * kMillisecond / 10);
}

// A hint brings the next read earlier, and never later: views of a large fleet must not end because
// its register is slow and somebody is in a later epoch.
TEST(NodeEpoch, HintDuringASlowReadDoesNotPutOffTheNextOne) {
  constexpr uint64_t kMembers = 64;
  for (const bool is_hinted : {false, true}) {
    sim::World world{1};
    sim::SimFabric machine{world, {}};
    OneRegister epochs{world, {1, 1, 1, 512, {}}};
    for (uint64_t node = 1; node <= kMembers; ++node) {
      epochs.current.epoch.members.push_back({node, 1, false, static_cast<uint16_t>(node - 1)});
    }
    Fleet fleet;
    fleet.epochs = &epochs;
    fleet.view_ns = kView;
    NodeEpoch node(machine.runtime(), fleet, {kMembers - 1, 1, false, 0}, 512,
                   {[&] { node.killed(); }, [] {}});  // the last turn
    node.start();
    world.run_until(world.now_ns() + kView);
    const int reads = epochs.reads;
    epochs.takes_ns = 45 * kView / 100;
    while (epochs.reads == reads) world.run_until(world.now_ns() + 10 * kMicrosecond);
    if (is_hinted) node.look();
    const uint64_t begun_ns = world.now_ns();
    while (epochs.reads == reads + 1) world.run_until(world.now_ns() + 10 * kMicrosecond);
    EXPECT_LE(world.now_ns() - begun_ns, epochs.takes_ns + 20 * kMicrosecond) << is_hinted;
    world.run_until(world.now_ns() + epochs.takes_ns - kMicrosecond);
    EXPECT_TRUE(node.view_valid(world.now_ns())) << is_hinted;
  }
}

// Rule 8, however many looks at the register come meanwhile.
TEST(NodeEpoch, ConfirmsOnceNoPageIsLeftThatIsNotItsOwn) {
  World at;
  at.kills_at_once = false;
  at.run_for(2 * kView);
  EXPECT_EQ(at.entered, std::vector<uint64_t>{2});
  EXPECT_EQ(at.epochs.confirms, 0);
  at.node->killed();
  at.run_for(2 * kMillisecond);
  EXPECT_EQ(at.epochs.current.confirmed, std::vector<NodeId>{kSelf.node});
  EXPECT_EQ(at.epochs.confirms, 1);
}

// So that its keys are those that it held.
TEST(NodeEpoch, RunTakesTheSlotOfTheNodesRunBefore) {
  World at;
  at.epochs.current.epoch.members = {kOther, {kSelf.node, 60, false, 5}};
  at.run_for(2 * kView);
  const Epoch& joined = at.epochs.current.epoch;
  EXPECT_EQ(joined.members, (std::vector<Member>{kOther, {kSelf.node, 70, false, 5}}));
}

TEST(NodeEpoch, JoinsByItsOwnTransactionAndConfirms) {
  World at;
  at.run_for(20 * kMillisecond);
  EXPECT_EQ(at.epochs.replaces, 1);
  EXPECT_EQ(at.entered, std::vector<uint64_t>{2});
  EXPECT_EQ(at.epochs.current.epoch.members, (std::vector<Member>{kOther, kSelf}));
  EXPECT_EQ(at.epochs.current.confirmed, std::vector<NodeId>{kSelf.node});
  EXPECT_EQ(at.node->tag().number, 2u);
}

TEST(NodeEpoch, FleetWithLongerPagesIsNotJoined) {
  World at(1024);
  at.run_for(10 * kSecond);
  EXPECT_EQ(at.epochs.replaces, 0);
  EXPECT_TRUE(at.entered.empty());
  EXPECT_FALSE(at.node->puts_open(at.now()));
}

TEST(NodeEpoch, ViewEndsVAfterTheLastReadThatWasAnsweredWasSent) {
  World at;
  at.run_for(kSecond);
  EXPECT_TRUE(at.node->view_valid(at.now()));
  const int reads = at.epochs.reads;
  at.run_for(kView);
  EXPECT_GE(at.epochs.reads, reads + 3) << "at least three times a V";
  at.epochs.answers = false;
  at.run_for(2 * kMillisecond);
  EXPECT_TRUE(at.node->view_valid(at.now()));
  at.run_for(kView);
  EXPECT_FALSE(at.node->view_valid(at.now()));
  at.epochs.answers = true;
  at.run_for(kView / 2);
  EXPECT_TRUE(at.node->view_valid(at.now()));
}

// What it tells clients of (protocol rule 12).
TEST(NodeEpoch, ViewIsAsOldAsTheSendingOfItsRead) {
  World at;
  EXPECT_EQ(at.node->view_age_ns(at.now()), std::nullopt) << "it is no member yet";
  at.run_for(kSecond);
  const int reads = at.epochs.reads;
  while (at.epochs.reads == reads) at.run_for(10 * kMicrosecond);
  const uint64_t sent_ns = at.now();
  at.run_for(2 * kMillisecond);
  at.epochs.answers = false;
  const auto age_ns = at.node->view_age_ns(at.now());
  ASSERT_TRUE(age_ns);
  EXPECT_LE(*age_ns, at.now() - sent_ns + 10 * kMicrosecond);
  EXPECT_GE(*age_ns, at.now() - sent_ns);
  at.run_for(kView / 2);
  EXPECT_EQ(at.node->view_age_ns(at.now()), *age_ns + kView / 2);
  at.run_for(kView / 2);
  EXPECT_EQ(at.node->view_age_ns(at.now()), std::nullopt);
}

// Less than a view forgives; a client that is told of this view forgives as much again.
TEST(NodeEpoch, ViewIsOlderByWhatItsMachineWasHeld) {
  World at;
  at.run_for(kSecond);
  const auto before = at.node->view_age_ns(at.now());
  at.machine.set_wall_clock(90 * kMillisecond);
  ASSERT_TRUE(at.node->view_valid(at.now()));
  EXPECT_EQ(at.node->view_age_ns(at.now()), *before + 90 * kMillisecond);
}

// A machine that a hypervisor has held for longer than a view forgives.
TEST(NodeEpoch, ViewOfBeforeAHoldIsOverUntilTheRegisterWasReadSince) {
  World at;
  at.run_for(kSecond);
  EXPECT_TRUE(at.node->view_valid(at.now()));
  at.machine.set_wall_clock(101 * kMillisecond);
  EXPECT_FALSE(at.node->view_valid(at.now()));
  at.run_for(kView / 4 + 2 * kMillisecond);
  EXPECT_TRUE(at.node->view_valid(at.now()));
  at.machine.set_wall_clock(-int64_t{kSecond});
  EXPECT_TRUE(at.node->view_valid(at.now()));
}

TEST(NodeEpoch, AnswerToAReadOfBeforeAHoldGrantsNoView) {
  World at;
  at.run_for(kSecond);
  const int reads = at.epochs.reads;
  while (at.epochs.reads == reads) at.run_for(10 * kMicrosecond);
  at.machine.set_wall_clock(kSecond);
  at.run_for(2 * kMillisecond);
  EXPECT_FALSE(at.node->view_valid(at.now())) << "it was sent before";
  at.run_for(kView / 4);
  EXPECT_TRUE(at.node->view_valid(at.now()));
}

TEST(NodeEpoch, LooksFromElsewhereLeaveNoMoreReadsBehindThanThereWere) {
  World at;
  at.run_for(kSecond);
  for (int i = 0; i < 50; ++i) {
    at.node->look();
    at.run_for(7 * kMillisecond);
  }
  const int reads = at.epochs.reads;
  at.run_for(10 * kView);
  EXPECT_LE(at.epochs.reads - reads, 41) << "four times a V";
  EXPECT_GE(at.epochs.reads - reads, 39);
}

TEST(NodeEpoch, LooksDuringAReadAreOneMoreRead) {
  World at;
  at.run_for(kSecond);
  at.node->look();
  const int reads = at.epochs.reads;
  for (int i = 0; i < 50; ++i) at.node->look();
  at.run_for(10 * kMillisecond);
  EXPECT_LE(at.epochs.reads - reads, 1);
}

TEST(NodeEpoch, LooksThatNeverEndAreReadsOfABoundedRate) {
  World at;
  at.run_for(kSecond);
  const int reads = at.epochs.reads;
  for (const uint64_t until = at.now() + 10 * kView; at.now() < until;) {
    at.node->look();
    at.run_for(100 * kMicrosecond);
  }
  EXPECT_LE(at.epochs.reads - reads, 641) << "64 times a V";
  EXPECT_GE(at.epochs.reads - reads, 500) << "and soon";
}

TEST(NodeEpoch, WriteThatFailsIsTriedAgainFourTimesAV) {
  World at;
  at.run_for(kSecond);
  at.epochs.refuses = true;
  at.epochs.current = {{3, 2, 1, 512, {kOther, kSelf}}, {}};
  const int confirms = at.epochs.confirms;
  at.run_for(10 * kView);
  EXPECT_LE(at.epochs.confirms - confirms, 41);
  EXPECT_GE(at.epochs.confirms - confirms, 38);
  at.epochs.refuses = false;
  at.run_for(kView);
  EXPECT_EQ(at.epochs.current.confirmed, std::vector<NodeId>{kSelf.node});

  World before;
  before.epochs.refuses = true;
  before.run_for(10 * kView);
  EXPECT_LE(before.epochs.replaces, 41);
  EXPECT_GE(before.epochs.replaces, 38);
}

TEST(NodeEpoch, PutsOpenAfterVAndWhenAllHaveConfirmed) {
  World at;
  at.run_for(2 * kSecond);
  EXPECT_FALSE(at.node->puts_open(at.now())) << "the other has not confirmed";
  at.epochs.current.confirmed.push_back(kOther.node);
  at.run_for(kView);
  EXPECT_TRUE(at.node->puts_open(at.now()));
  ++at.epochs.current.epoch.number;
  const uint64_t began = at.now();
  at.node->look();
  at.run_for(10 * kMillisecond);
  EXPECT_EQ(at.node->epoch().number, 3u);
  EXPECT_TRUE(at.epochs.current.all_confirmed());
  at.world.run_until(began + kView / 64 * 65);
  EXPECT_FALSE(at.node->puts_open(at.now()));
  at.run_for(2 * kMillisecond);
  EXPECT_TRUE(at.node->puts_open(at.now()));
}

TEST(NodeEpoch, OneThatIsLeftOutSaysSoAndDoesNotJoinAsItIs) {
  World at;
  at.run_for(kSecond);
  at.epochs.current = {{3, 1, 1, 512, {kOther}}, {}};
  at.run_for(kView);
  EXPECT_GT(at.left_out, 0);
  EXPECT_EQ(at.epochs.replaces, 1);
  EXPECT_EQ(at.entered, std::vector<uint64_t>{2});
}

// The node is a member of epoch 2 before.
void expect_refused(const std::string& lie, void (*tell)(Epoch&)) {
  World at;
  at.run_for(kSecond);
  ASSERT_TRUE(at.node->view_valid(at.now()));
  const Epoch before = at.epochs.current.epoch;
  testing::internal::CaptureStderr();
  tell(at.epochs.current.epoch);
  at.run_for(2 * kView);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << lie << ": " << said;
  EXPECT_NE(said.find("refused the register's epoch"), std::string::npos) << lie << ": " << said;
  EXPECT_FALSE(at.node->view_valid(at.now())) << lie;
  EXPECT_EQ(at.entered, std::vector<uint64_t>{2}) << lie;
  EXPECT_EQ(at.node->epoch(), before) << lie;
  EXPECT_EQ(at.left_out, 0) << lie;
  at.epochs.current.epoch = before;
  at.run_for(kView);
  EXPECT_TRUE(at.node->view_valid(at.now())) << lie << ", and is told no more";
}

TEST(NodeEpoch, EpochThatCannotBeIsRefusedAndRenewsNoView) {
  expect_refused("a lower number", [](Epoch& epoch) { --epoch.number; });
  expect_refused("another seed", [](Epoch& epoch) { ++epoch.seed; });
  expect_refused("another run", [](Epoch& epoch) { ++epoch.members[0].incarnation; });
  expect_refused("another member", [](Epoch& epoch) { epoch.members.pop_back(); });
  expect_refused("too many replicas", [](Epoch& epoch) {
    ++epoch.number;
    epoch.replicas = kMaxReplicas + 1;
    for (NodeId node = 10; epoch.members.size() < epoch.replicas; ++node) {
      epoch.members.push_back({node, 1});
    }
    epoch.give_slots();
  });
}

// Each time that the register loses its data is told of, and not the first alone.
TEST(NodeEpoch, SecondRefusalIsToldOfToo) {
  World at;
  at.run_for(kSecond);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    --at.epochs.current.epoch.number;
    at.run_for(2 * kView);
    ++at.epochs.current.epoch.number;
    at.run_for(kView);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
}

TEST(NodeEpoch, ListIsOneEpochThatIsAlwaysOpen) {
  sim::World world(1);
  Fleet fleet;
  fleet.list = {1, 2, 1, 512, {{7, 0, false, 788}, {8, 0, false, 2}}};
  int entered = 0;
  NodeEpoch node(world, fleet, kSelf, 512, {[&] { ++entered; }, [] {}});
  node.start();
  world.run_until(world.now_ns() + kSecond);
  EXPECT_EQ(entered, 1);
  EXPECT_EQ(node.tag(), (EpochTag{1, fleet.list.identity()}));
  EXPECT_TRUE(node.puts_open(world.now_ns()));
  EXPECT_TRUE(node.view_valid(world.now_ns()));
  EXPECT_TRUE(node.holds({1, 2}));
  EXPECT_TRUE(node.holder(8));
  EXPECT_FALSE(node.holder(9));
}

}  // namespace
}  // namespace farpage
