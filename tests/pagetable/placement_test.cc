#include "pagetable/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace farpage {
namespace {

Epoch nodes(const std::string& names, uint64_t replicas, uint64_t seed = 0) {
  Epoch epoch = {
      .number = 1, .replicas = replicas, .seed = seed, .page_bytes = 4096, .members = {}};
  for (const char name : names) epoch.members.push_back({node_id(std::string(1, name)), 0});
  epoch.give_slots();
  return epoch;
}

Epoch many(size_t count, uint64_t replicas, uint64_t seed = 0) {
  Epoch epoch = {
      .number = 1, .replicas = replicas, .seed = seed, .page_bytes = 4096, .members = {}};
  for (size_t node = 0; node < count; ++node) {
    epoch.members.push_back({node_id("n" + std::to_string(node)), 0});
  }
  epoch.give_slots();
  return epoch;
}

// The rule again, from its definition: all slots in the key's order, and of these the first that
// members are in. As places among the members.
std::vector<size_t> first_in_order(const Epoch& epoch, const PageKey& key) {
  const auto mix = [](uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  };
  const uint64_t first = mix(mix(key.low ^ mix(epoch.seed)) ^ key.high);
  const uint64_t second = mix(first + 0x9E3779B97F4A7C15);
  const uint64_t words[] = {first % 1048576, first / 1048576 % 1048576, second % 1048576,
                            second / 1048576 % 1048576};
  std::vector<uint64_t> slots(1024);
  std::iota(slots.begin(), slots.end(), 0);
  for (uint64_t& slot : slots) {
    for (const uint64_t word : words) {
      slot = (slot * (word % 1024 | 1) + word / 1024) % 1024;
      slot ^= slot / 32;
    }
  }
  std::vector<size_t> found;
  for (const uint64_t slot : slots) {
    const auto member = std::ranges::find_if(
        epoch.members, [slot](const Member& each) { return each.slot == slot && !each.leaving; });
    if (member == epoch.members.end()) continue;
    found.push_back(static_cast<size_t>(member - epoch.members.begin()));
    if (found.size() == epoch.replicas) break;
  }
  return found;
}

std::vector<size_t> places(const ReplicaSet& set) {
  std::vector<size_t> found;
  for (size_t rank = 0; rank < set.size(); ++rank) found.push_back(set[rank]);
  return found;
}

// How many times as far the counts are from their mean as chance makes them: about 1.
double spread(const std::vector<double>& counts) {
  const double mean =
      std::reduce(counts.begin(), counts.end()) / static_cast<double>(counts.size());
  double squares = 0;
  for (const double count : counts) squares += (count - mean) * (count - mean);
  return std::sqrt(squares / static_cast<double>(counts.size()) / mean);
}

std::vector<NodeId> nodes_of(const Epoch& epoch, const Placement& placement, const PageKey& key) {
  const ReplicaSet set = placement.replicas(key);
  std::vector<NodeId> found;
  for (size_t rank = 0; rank < set.size(); ++rank) found.push_back(epoch.members[set[rank]].node);
  return found;
}

std::vector<NodeId> holders(const Epoch& epoch, const PageKey& key) {
  return nodes_of(epoch, Placement(epoch), key);
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

// Few members and many are found in two ways, and both find what the definition says.
TEST(Placement, HoldersAreThoseInTheFirstSlotsOfTheKeysOrder) {
  for (const size_t count : {1, 2, 3, 8, 31, 32, 33, 45, 46, 64, 90, 91, 300, 1'000, 1'024}) {
    for (const uint64_t replicas : {1, 2, 3, 8}) {
      Epoch epoch = many(count, std::min<uint64_t>(replicas, count), count + replicas);
      if (count > replicas) epoch.members[count / 2].leaving = true;
      const Placement placement(epoch);
      for (const PageKey& key : some_keys(20)) {
        ASSERT_EQ(places(placement.replicas(key)), first_in_order(epoch, key))
            << count << " members, " << replicas << " replicas";
      }
    }
  }
}

// Whichever slots members are in, and with any of them lost: a permutation that is weak shows in
// slots side by side, or a power of two apart.
TEST(Placement, SharesDifferAsByChanceWhicheverSlotsAreTaken) {
  const auto epoch_in = [](size_t count, uint16_t apart) {
    Epoch epoch = many(count, 2);
    for (size_t i = 0; i < count; ++i) {
      epoch.members[i].slot = static_cast<uint16_t>(i * apart);
    }
    return epoch;
  };
  for (const Epoch& epoch :
       {many(60, 2), epoch_in(60, 1), epoch_in(60, 16), epoch_in(60, 17), epoch_in(1'000, 1)}) {
    const size_t count = epoch.members.size();
    const size_t lost = count / 8;  // the first of them
    Epoch after = epoch;
    after.members.erase(after.members.begin(),
                        after.members.begin() + static_cast<ptrdiff_t>(lost));
    const Placement before(epoch);
    const Placement then(after);
    std::vector<double> primaries(count);
    std::vector<double> seconds(count);
    std::vector<double> received(count - lost);
    for (const PageKey& key : some_keys(400'000)) {
      const ReplicaSet set = before.replicas(key);
      ++primaries[set[0]];
      ++seconds[set[1]];
      if (set[0] >= lost && set[1] >= lost) continue;
      for (const size_t place : places(then.replicas(key))) {
        if (!set.contains(place + lost)) ++received[place];
      }
    }
    EXPECT_NEAR(spread(primaries), 1, 0.35) << count;
    EXPECT_NEAR(spread(seconds), 1, 0.35) << count;
    EXPECT_NEAR(spread(received), 1, 0.35) << count;
  }
}

// Of each key, as many copies move as a member took or had that is no member before or after.
TEST(Placement, NothingMovesThatNeedNot) {
  const Epoch all = many(1'000, 2);
  Epoch fewer = all;
  std::erase_if(fewer.members, [](const Member& member) { return member.slot % 30 == 0; });
  const Placement placement_of_all(all);
  const Placement placement_of_fewer(fewer);
  for (const PageKey& key : some_keys(20'000)) {
    const auto of_all = nodes_of(all, placement_of_all, key);
    const auto of_fewer = nodes_of(fewer, placement_of_fewer, key);
    const auto must =
        std::ranges::count_if(of_all, [&](NodeId node) { return fewer.find(node) == nullptr; });
    const auto moved = std::ranges::count_if(
        of_fewer, [&](NodeId node) { return std::ranges::find(of_all, node) == of_all.end(); });
    ASSERT_EQ(moved, must);
  }
}

TEST(Placement, AMemberHoldsTheKeysThatHaveItAmongTheirReplicas) {
  for (Epoch epoch : {nodes("abcdefgh", 3), many(200, 3)}) {
    epoch.members[2].leaving = true;
    const Placement placement(epoch);
    EXPECT_FALSE(placement.holder(epoch.members[2].node)) << "it is to leave";
    EXPECT_FALSE(placement.holder(node_id("nobody")));
    for (const PageKey& key : some_keys(500)) {
      const ReplicaSet set = placement.replicas(key);
      for (size_t member = 0; member < epoch.members.size(); ++member) {
        const auto holder = placement.holder(epoch.members[member].node);
        ASSERT_EQ(holder && placement.holds(*holder, key), set.contains(member));
      }
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

// Nodes and clients of different builds must agree: slots and orders computed in Python.
TEST(Placement, IsTheSameInEveryBuild) {
  const Epoch epoch = nodes("abc", 3, 5);
  EXPECT_EQ(epoch.members[0].slot, 74);
  EXPECT_EQ(epoch.members[1].slot, 116);
  EXPECT_EQ(epoch.members[2].slot, 938);
  EXPECT_EQ(holders(epoch, {1, 2}),
            (std::vector<NodeId>{node_id("a"), node_id("b"), node_id("c")}));
  EXPECT_EQ(holders(epoch, {0xdeadbeef, 0}),
            (std::vector<NodeId>{node_id("c"), node_id("a"), node_id("b")}));
}

}  // namespace
}  // namespace farpage
