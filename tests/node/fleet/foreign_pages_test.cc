#include "node/fleet/foreign_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "integrity/crc32c.h"
#include "pagetable/placement.h"
#include "sim/network/sim_fabric.h"
#include "tests/node/fleet/one_register.h"

namespace farpage {
namespace {

constexpr Member kSelf = {7, 70, false, 1};
constexpr Member kOther = {8, 80, false, 2};
constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kSlots = 1024;
constexpr uint64_t kPages = 600;
constexpr uint64_t kStep = 500 * kMicrosecond;

PageKey key_of(uint64_t number) {
  return make_page_key("foreign", std::to_string(number));
}

// A member with its store, of epochs that the test begins.
class ForeignPagesTest : public ::testing::Test {
 protected:
  ForeignPagesTest() {
    fleet_.epochs = &epochs_;
    fleet_.view_ns = 640 * kMillisecond;
    const Geometry geometry = make_geometry(kPageBytes, kSlots * (kPageBytes + 64)).value();
    store_ =
        PageStore::create({geometry, 70, kMillisecond, true}, machine_, machine_.runtime().clock())
            .value();
    node_.emplace(machine_.runtime(), fleet_, kSelf, kPageBytes,
                  NodeEpoch::Hooks{[this] { foreign_->begin_epoch(); }, [] {}});
    foreign_.emplace(machine_.runtime(), *store_, *node_, fleet_.view_ns,
                     [this] { node_->killed(); });
    node_->start();
    run_until_confirmed();
    const std::vector<std::byte> payload(kPageBytes, std::byte{1});
    for (uint64_t i = 0; i < kPages; ++i) {
      const uint32_t crc = crc32c(0, payload.data(), payload.size());
      EXPECT_EQ(store_->put(key_of(i), version_of(i), payload, crc), Code::kOk);
    }
  }

  static Version version_of(uint64_t i) { return make_version(1, 1 + i); }
  bool is_confirmed() const { return !epochs_.current.confirmed.empty(); }
  void begin_epoch(std::vector<Member> members) {
    Epoch next = epochs_.current.epoch;
    ++next.number;
    next.members = std::move(members);
    next.give_slots(epochs_.current.epoch.members);
    epochs_.current = {next, {}};
    node_->look();
  }
  void run_until_confirmed() {
    const uint64_t end_ns = world_.now_ns() + kSecond;
    while (!is_confirmed() && world_.now_ns() < end_ns) step();
    ASSERT_TRUE(is_confirmed());
  }
  void step() { world_.run_until(world_.now_ns() + kStep); }
  void run_until_entered(uint64_t epoch) {
    const uint64_t end_ns = world_.now_ns() + kSecond;
    while (node_->epoch().number < epoch && world_.now_ns() < end_ns) step();
    ASSERT_EQ(node_->epoch().number, epoch);
  }
  // By the placement as others compute it.
  std::vector<uint64_t> live(bool foreign) const {
    const Placement placement(epochs_.current.epoch);
    std::vector<uint64_t> found;
    for (uint64_t i = 0; i < kPages; ++i) {
      const Member& holder = epochs_.current.epoch.members[placement.replicas(key_of(i)).primary()];
      if (store_->find(key_of(i)) && (holder != kSelf) == foreign) found.push_back(i);
    }
    return found;
  }

  sim::World world_{1};
  sim::SimFabric machine_{world_, {}};
  OneRegister epochs_{world_, {1, 1, 5, kPageBytes, {kSelf}}};
  Fleet fleet_;
  std::unique_ptr<PageStore> store_;
  std::optional<NodeEpoch> node_;
  std::optional<ForeignPages> foreign_;
};

TEST_F(ForeignPagesTest, AreKilledInTurnsAndThenTheEpochIsConfirmed) {
  begin_epoch({kSelf, kOther});
  run_until_entered(2);
  const size_t own = live(false).size();
  size_t before = live(true).size();
  EXPECT_GT(before, kPages / 3);
  size_t most_at_once = 0;
  while (!is_confirmed() && world_.now_ns() < 2 * kSecond) {
    step();
    const size_t left = live(true).size();
    most_at_once = std::max(most_at_once, before - left);
    before = left;
  }
  ASSERT_TRUE(is_confirmed());
  EXPECT_EQ(live(true).size(), 0u);
  EXPECT_EQ(live(false).size(), own);
  EXPECT_LE(most_at_once, kSlots / 64);
  EXPECT_EQ(store_->slots().dead_count(), kPages - own) << "other nodes read them";
}

TEST_F(ForeignPagesTest, ThereAreNoneWhereAMemberHasLeft) {
  begin_epoch({kSelf, kOther});
  run_until_confirmed();
  const auto left = live(false);
  begin_epoch({kSelf});
  run_until_entered(3);
  const uint64_t entered_ns = world_.now_ns();
  run_until_confirmed();
  EXPECT_EQ(live(false), left);
  store_->walk(0, kSlots, [](uint32_t, const PageHeader&, bool is_dead) {
    EXPECT_FALSE(is_dead) << "what died before serves no fill any more";
    return true;
  });
  EXPECT_LT(world_.now_ns() - entered_ns, 5 * kMillisecond);
}

// What was not looked at before, no newer put can have replaced: that epoch was never confirmed.
TEST_F(ForeignPagesTest, AnEpochThatComesMeanwhileIsTheOneThatCounts) {
  begin_epoch({kSelf, kOther});
  run_until_entered(2);
  for (int i = 0; i < 20; ++i) step();
  EXPECT_GT(live(true).size(), 0u);
  EXPECT_FALSE(is_confirmed());
  const size_t killed = store_->slots().dead_count();
  EXPECT_GT(killed, 0u);
  constexpr Member kThird = {9, 90};
  begin_epoch({kSelf, kThird});
  run_until_confirmed();
  EXPECT_EQ(node_->epoch().number, 3u);
  EXPECT_EQ(live(true).size(), 0u);
  EXPECT_GT(live(false).size(), (kPages - killed) / 3);
}

// A turn that comes late makes up for what it has missed.
TEST_F(ForeignPagesTest, TheWalkTakesHalfOfAViewAtMostAlsoWhereTurnsComeLate) {
  begin_epoch({kSelf, kOther});
  run_until_entered(2);
  const uint64_t entered_ns = world_.now_ns();
  machine_.pause();
  world_.run_until(entered_ns + fleet_.view_ns / 2);
  machine_.resume();
  run_until_confirmed();
  EXPECT_LT(world_.now_ns() - entered_ns, fleet_.view_ns / 2 + 10 * kMillisecond);
}

TEST_F(ForeignPagesTest, AreKilledBeforeAnotherMemberIsToldOfTheirSlots) {
  begin_epoch({kSelf, kOther});
  run_until_entered(2);
  foreign_->kill(0, kSlots);
  EXPECT_FALSE(is_confirmed());
  EXPECT_EQ(live(true).size(), 0u);
  uint64_t dead = 0;
  store_->walk(0, kSlots, [&](uint32_t, const PageHeader&, bool is_dead) {
    dead += is_dead ? 1 : 0;
    return true;
  });
  EXPECT_EQ(dead, store_->slots().dead_count());
  EXPECT_GT(dead, 0u);
  run_until_confirmed();
}

}  // namespace
}  // namespace farpage
