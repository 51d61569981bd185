#include "pagetable/lost_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"

namespace farpage {
namespace {

constexpr NodeId kSelf = 7;

Epoch epoch_of(const std::vector<NodeId>& nodes, uint64_t replicas, uint64_t seed = 5) {
  Epoch epoch = {
      .number = 1, .replicas = replicas, .seed = seed, .page_bytes = 4096, .members = {}};
  for (const NodeId node : nodes) epoch.members.push_back({node, 1});
  epoch.give_slots();
  return epoch;
}

bool is_holder(const Epoch& epoch, const PageKey& key) {
  const ReplicaSet set = Placement(epoch).replicas(key);
  for (size_t rank = 0; rank < set.size(); ++rank) {
    if (epoch.members[set[rank]].node == kSelf) return true;
  }
  return false;
}

std::vector<PageKey> some_keys(Random& random, size_t count) {
  std::vector<PageKey> keys(count);
  for (PageKey& key : keys) key = {random.next(), random.next()};
  return keys;
}

TEST(LostKeys, NothingIsKnownBeforeAllPagesAreJudgedOnce) {
  LostKeys lost(kSelf);
  EXPECT_TRUE(lost.enter(epoch_of({1, kSelf}, 1)));
  EXPECT_TRUE(lost.any());
  lost.judged();
  EXPECT_FALSE(lost.any());
}

// As many replicas as holders: of two, one leaves, and comes back.
TEST(LostKeys, WhereEachNodeHoldsEverythingNothingIsLost) {
  LostKeys lost(kSelf);
  EXPECT_FALSE(lost.enter(epoch_of({1, kSelf}, 2)));
  lost.judged();
  EXPECT_FALSE(lost.enter(epoch_of({kSelf}, 1)));
  lost.judged();
  EXPECT_FALSE(lost.enter(epoch_of({1, kSelf}, 2)));
  EXPECT_FALSE(lost.any());
}

// What was judged before stays judged, and what was not is still to be.
TEST(LostKeys, AMemberThatLeavesMeanwhileAddsNothing) {
  LostKeys lost(kSelf);
  lost.enter(epoch_of({1, 2, kSelf}, 1));
  lost.judged();
  EXPECT_TRUE(lost.enter(epoch_of({1, 2, 3, kSelf}, 1)));
  EXPECT_FALSE(lost.enter(epoch_of({1, 3, kSelf}, 1)));
  EXPECT_TRUE(lost.any()) << "of 3";
  EXPECT_TRUE(lost.enter(epoch_of({1, 2, 3, kSelf}, 1))) << "2 has come back";
}

TEST(LostKeys, WhereMembersOnlyLeaveNothingIsLost) {
  LostKeys lost(kSelf);
  lost.enter(epoch_of({1, 2, kSelf, 9}, 2));
  lost.judged();
  lost.enter(epoch_of({kSelf, 2, 9}, 2));
  EXPECT_FALSE(lost.any());
  lost.enter(epoch_of({kSelf, 9}, 2));
  EXPECT_FALSE(lost.any());
}

TEST(LostKeys, AMemberThatLeavesAndComesBackHasJoined) {
  LostKeys lost(kSelf);
  lost.enter(epoch_of({1, kSelf}, 1));
  lost.judged();
  lost.enter(epoch_of({kSelf}, 1));
  lost.enter(epoch_of({1, kSelf}, 1));
  EXPECT_TRUE(lost.any());
}

// The node may enter an epoch and miss the one before it.
TEST(LostKeys, AMemberThatIsInAnotherSlotHasJoined) {
  LostKeys lost(kSelf);
  Epoch epoch = epoch_of({1, 2, kSelf}, 1);
  lost.enter(epoch);
  lost.judged();
  uint16_t& slot = epoch.members[0].slot;
  slot = static_cast<uint16_t>((slot + 1) % kMaxMembers);
  ASSERT_TRUE(validate(epoch));
  EXPECT_TRUE(lost.enter(epoch));
  EXPECT_TRUE(lost.any());
}

TEST(LostKeys, AMemberThatIsToLeaveHoldsNothing) {
  LostKeys lost(kSelf);
  lost.enter(epoch_of({1, kSelf}, 1));
  lost.judged();
  Epoch leaving = epoch_of({1, kSelf}, 1);
  leaving.members[1].leaving = true;
  lost.enter(leaving);
  EXPECT_TRUE(lost.any());
  EXPECT_TRUE(lost.has({1, 2}));
  lost.enter(epoch_of({1, kSelf}, 1));
  EXPECT_TRUE(lost.any()) << "its pages have not been judged since";
}

// Members come, go and leave; replicas and seeds change; judged or not: a key that the node held in
// any epoch since it last judged all pages is lost exactly if it holds it no more.
TEST(LostKeys, OfWhatTheNodeHeldItKnowsExactlyWhatItHoldsNoMore) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    LostKeys lost(kSelf);
    std::set<size_t> held;
    std::set<size_t> held_before;  // in the epoch before this one
    const std::vector<PageKey> keys = some_keys(random, 200);
    Epoch epoch = epoch_of({kSelf}, 1, seed);
    uint64_t losses = 0;
    for (int change = 0; change < 30; ++change) {
      const uint64_t dice = random.below(20);
      const NodeId other = 100 + random.below(8);
      const std::vector<Member> before = epoch.members;
      const auto found = std::ranges::find(epoch.members, other, &Member::node);
      if (dice == 0) {
        ++epoch.seed;
      } else if (dice == 1) {
        std::ranges::find(epoch.members, kSelf, &Member::node)->leaving ^= true;
      } else if (dice < 4 && found != epoch.members.end()) {
        found->leaving ^= true;
      } else if (found != epoch.members.end()) {
        epoch.members.erase(found);
      } else {
        epoch.members.insert(epoch.members.begin() + static_cast<int>(random.below(2)), {other, 1});
      }
      epoch.give_slots(before);
      if (epoch.holders() == 0) epoch.members.front().leaving = false;
      epoch.set_replicas(1 + random.below(3));
      if (random.below(4) == 0) continue;  // it does not hear of this epoch
      const bool is_lost_anew = lost.enter(epoch);
      for (const size_t i : held_before) {
        ASSERT_TRUE(is_lost_anew || is_holder(epoch, keys[i])) << "seed " << seed;
      }
      held_before.clear();
      for (size_t i = 0; i < keys.size(); ++i) {
        if (is_holder(epoch, keys[i])) held_before.insert(i);
      }
      for (const size_t i : held) {
        const bool holds = is_holder(epoch, keys[i]);
        ASSERT_EQ(lost.any() && lost.has(keys[i]), !holds)
            << "seed " << seed << " change " << change;
        losses += holds ? 0 : 1;
      }
      if (random.below(3) > 0) {
        std::erase_if(held, [&](size_t i) { return !is_holder(epoch, keys[i]); });
        lost.judged();
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        if (is_holder(epoch, keys[i]) && random.below(2) == 0) held.insert(i);
      }
    }
    EXPECT_GT(losses, 0u);
  }
}

}  // namespace
}  // namespace farpage
