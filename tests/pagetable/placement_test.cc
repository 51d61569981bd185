#include "pagetable/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/random.h"

namespace farpage {
namespace {

Epoch nodes(const std::string& names, uint64_t replicas, uint64_t seed = 0) {
  Epoch epoch = {
      .number = 1, .replicas = replicas, .seed = seed, .page_bytes = 4096, .members = {}};
  for (const char name : names) epoch.members.push_back({node_id(std::string(1, name)), 0});
  return epoch;
}

std::vector<NodeId> holders(const Epoch& epoch, const PageKey& key) {
  const ReplicaSet set = Placement(epoch).replicas(key);
  std::vector<NodeId> found;
  for (size_t rank = 0; rank < set.size(); ++rank) found.push_back(epoch.members[set[rank]].node);
  return found;
}

std::vector<PageKey> some_keys(size_t count) {
  Random random(1);
  std::vector<PageKey> keys(count);
  for (PageKey& key : keys) key = {random.next(), random.next()};
  return keys;
}

TEST(Placement, EveryKeyHasAsManyDifferentHoldersAsAskedFor) {
  for (uint64_t replicas = 1; replicas <= 4; ++replicas) {
    for (const PageKey& key : some_keys(200)) {
      const auto found = holders(nodes("abcd", replicas), key);
      EXPECT_EQ(found.size(), replicas);
      EXPECT_EQ(std::set<NodeId>(found.begin(), found.end()).size(), replicas);
    }
  }
}

TEST(Placement, EpochOfNoReplicaOrOfTooManyIsAMistake) {
  EXPECT_DEATH(Placement(nodes("ab", 0)), "check failed: replicas_");
  EXPECT_DEATH(Placement(nodes("abcdefghi", kMaxReplicas + 1)), "check failed: replicas_");
}

TEST(Placement, OrderOfTheListAndIncarnationsDoNotCount) {
  const Epoch epoch = nodes("abcde", 3, 9);
  Epoch other = epoch;
  std::ranges::reverse(other.members);
  for (Member& member : other.members) member.incarnation = 77;
  for (const PageKey& key : some_keys(200)) EXPECT_EQ(holders(other, key), holders(epoch, key));
}

TEST(Placement, MemberThatIsLeavingIsPassedOverAsIfItHadLeft) {
  for (size_t leaving = 0; leaving < 3; ++leaving) {
    Epoch epoch = nodes("abc", 2);
    epoch.members[leaving].leaving = true;
    Epoch without = epoch;
    without.members.erase(without.members.begin() + static_cast<ptrdiff_t>(leaving));
    for (const PageKey& key : some_keys(200)) EXPECT_EQ(holders(epoch, key), holders(without, key));
    epoch.replicas = 1;
    epoch.members[(leaving + 1) % 3].leaving = true;
    const NodeId last = epoch.members[(leaving + 2) % 3].node;
    for (const PageKey& key : some_keys(20)) EXPECT_EQ(holders(epoch, key), std::vector{last});
  }
}

TEST(Placement, NodeThatLeavesMovesOnlyItsOwnKeys) {
  const Epoch before = nodes("abcde", 2);
  const Epoch after = nodes("abde", 2);
  const NodeId gone = node_id("c");
  for (const PageKey& key : some_keys(500)) {
    std::vector<NodeId> old_holders = holders(before, key);
    const auto held = std::ranges::find(old_holders, gone);
    const std::vector<NodeId> new_holders = holders(after, key);
    if (held == old_holders.end()) {
      EXPECT_EQ(new_holders, old_holders);
    } else {
      old_holders.erase(held);
      EXPECT_EQ(new_holders[0], old_holders[0]);  // who was left comes first
    }
  }
}

TEST(Placement, LoadIsEvenForPrimariesAndHolders) {
  const Epoch epoch = nodes("abcde", 2);
  std::map<NodeId, size_t> primaries;
  std::map<NodeId, size_t> held;
  const size_t count = 20'000;
  for (const PageKey& key : some_keys(count)) {
    const auto found = holders(epoch, key);
    ++primaries[found[0]];
    for (const NodeId node : found) ++held[node];
  }
  for (const Member& member : epoch.members) {
    EXPECT_NEAR(static_cast<double>(primaries[member.node]), count / 5.0, count * 0.02);
    EXPECT_NEAR(static_cast<double>(held[member.node]), 2 * count / 5.0, count * 0.02);
  }
}

TEST(Placement, AMemberHoldsTheKeysThatHaveItAmongTheirReplicas) {
  Epoch epoch = nodes("abcdefgh", 3);
  epoch.members[2].leaving = true;
  const Placement placement(epoch);
  EXPECT_FALSE(placement.holder(epoch.members[2].node)) << "it is to leave";
  EXPECT_FALSE(placement.holder(node_id("nobody")));
  for (const PageKey& key : some_keys(2'000)) {
    const ReplicaSet set = placement.replicas(key);
    for (size_t member = 0; member < epoch.members.size(); ++member) {
      const auto holder = placement.holder(epoch.members[member].node);
      ASSERT_EQ(holder && placement.holds(*holder, key), set.contains(member));
    }
  }
}

TEST(Placement, SeedMovesKeys) {
  size_t moved = 0;
  for (const PageKey& key : some_keys(1000)) {
    moved += holders(nodes("abcd", 1, 1), key) != holders(nodes("abcd", 1, 2), key) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(moved), 750, 60);
}

// Nodes and clients of different builds must agree: scores computed by an implementation of
// SplitMix64's finalizer in Python.
TEST(Placement, IsTheSameInEveryBuild) {
  const Epoch epoch = nodes("abc", 3, 5);
  EXPECT_EQ(holders(epoch, {1, 2}),
            (std::vector<NodeId>{node_id("a"), node_id("c"), node_id("b")}));
  EXPECT_EQ(holders(epoch, {0xdeadbeef, 0}),
            (std::vector<NodeId>{node_id("b"), node_id("c"), node_id("a")}));
}

}  // namespace
}  // namespace farpage
