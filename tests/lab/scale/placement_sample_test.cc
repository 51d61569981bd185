#include "lab/scale/placement_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "pagetable/slot_order.h"

namespace farpage {
namespace {

constexpr uint64_t kKeys = 20'000;
constexpr uint64_t kSeed = 5;

// The placement again, from its definition: the first slots of the key's order that are taken.
std::vector<size_t> holders(const Epoch& epoch, uint64_t low, uint64_t high) {
  const SlotOrder order({low, high}, Random::mix(epoch.seed));
  std::vector<size_t> found;
  for (uint32_t position = 0; found.size() < epoch.replicas; ++position) {
    const auto member = std::ranges::find(epoch.members, order.slot_at(position), &Member::slot);
    if (member != epoch.members.end()) {
      found.push_back(static_cast<size_t>(member - epoch.members.begin()));
    }
  }
  return found;
}

struct Truth {
  std::map<size_t, uint64_t> held;
  std::map<size_t, uint64_t> received;
  uint64_t touched = 0;
  uint64_t gone = 0;
};

// Of one thread's keys, with the first `lost` nodes lost.
Truth truth_of(const Epoch& epoch, uint64_t lost, uint64_t keys) {
  Epoch after = epoch;
  after.members.erase(after.members.begin(), after.members.begin() + static_cast<long>(lost));
  Random random(Random::mix(kSeed ^ Random::mix(1)));
  Truth truth;
  for (uint64_t i = 0; i < keys; ++i) {
    const uint64_t low = random.next();
    const uint64_t high = random.next();
    const auto before = holders(epoch, low, high);
    for (const size_t place : before) ++truth.held[place];
    const auto away = std::ranges::count_if(before, [lost](size_t place) { return place < lost; });
    truth.touched += away > 0 ? 1 : 0;
    if (static_cast<size_t>(away) == before.size()) {
      ++truth.gone;
      continue;
    }
    for (const size_t place : holders(after, low, high)) {
      if (std::ranges::find(before, place + lost) == before.end()) ++truth.received[place + lost];
    }
  }
  return truth;
}

TEST(PlacementSample, CountsAreThoseOfAPlacementFromItsDefinition) {
  const Epoch epoch = scale_epoch(12, 2, 4096, 3);
  const PlacementSample sample = sample_placement(epoch, kKeys, kSeed, {1, 4}, 1);
  ASSERT_EQ(sample.losses.size(), 2u);
  for (const Loss& loss : sample.losses) {
    const Truth truth = truth_of(epoch, loss.nodes.size(), kKeys);
    EXPECT_EQ(loss.keys_touched, truth.touched);
    EXPECT_EQ(loss.keys_gone, truth.gone);
    uint64_t copies = 0;
    for (size_t place = 0; place < epoch.members.size(); ++place) {
      const auto held = truth.held.find(place);
      const auto received = truth.received.find(place);
      EXPECT_EQ(sample.held[place], held == truth.held.end() ? 0 : held->second);
      EXPECT_EQ(loss.received[place], received == truth.received.end() ? 0 : received->second);
      copies += loss.received[place];
    }
    EXPECT_EQ(loss.copies_to_make, copies);
    EXPECT_EQ(std::reduce(loss.sent.begin(), loss.sent.end()), copies);
  }
  EXPECT_EQ(sample.losses[0].keys_gone, 0u) << "one of two replicas was lost";
  EXPECT_GT(sample.losses[1].keys_gone, 0u);
}

TEST(PlacementSample, KeysGoneAreAsManyAsPairsOfLostNodes) {
  const uint64_t nodes = 40;
  const uint64_t lost = 10;
  const PlacementSample sample =
      sample_placement(scale_epoch(nodes, 2, 4096, 1), 100'000, 1, {lost}, 2);
  const double expected = 100'000.0 * lost * (lost - 1) / (nodes * (nodes - 1));
  EXPECT_NEAR(static_cast<double>(sample.losses[0].keys_gone), expected, 0.05 * expected);
}

TEST(PlacementSample, ThreadsShareTheKeysAndLoseNone) {
  const Epoch epoch = scale_epoch(10, 3, 4096, 1);
  const PlacementSample sample = sample_placement(epoch, 10'001, 1, {}, 3);
  EXPECT_EQ(sample.keys, 10'001u);
  EXPECT_EQ(std::reduce(sample.held.begin(), sample.held.end()), 3 * 10'001u);
  EXPECT_EQ(std::reduce(sample.primaries.begin(), sample.primaries.end()), 10'001u);
}

TEST(PlacementSample, EvennessIsThatOfTheCounts) {
  const Evenness even = evenness({90, 100, 110, 100}, 1'000'000);
  EXPECT_DOUBLE_EQ(even.mean, 100);
  EXPECT_DOUBLE_EQ(even.largest, 1.1);
  EXPECT_DOUBLE_EQ(even.smallest, 0.9);
  EXPECT_NEAR(even.deviation, 0.0707, 0.0001);
  EXPECT_NEAR(even.chance, 0.0866, 0.0001);
  EXPECT_NEAR(even.largest_at_most, 1.1 + 0.5 + 0.005, 1e-9);
}

// A hash that favours a node by a tenth must not look even.
TEST(PlacementSample, BoundOfTheLargestShareHoldsForAnUnevenHash) {
  const uint64_t nodes = 50;
  std::vector<uint64_t> counts(nodes);
  Random random(7);
  for (uint64_t i = 0; i < nodes * 2'000; ++i) {
    const uint64_t at = random.below(10 * nodes + 1);
    ++counts[std::min(at / 10, nodes - 1)];  // the last has 11 of 10 * nodes + 1
  }
  EXPECT_GE(evenness(counts, 1'000'000).largest_at_most, 1.1);
}

TEST(PlacementSample, LargestOfManyCountsIsAtMostWhatChanceExpects) {
  Random random(3);
  double sum = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<uint64_t> counts(100);
    for (int i = 0; i < 100 * 400; ++i) ++counts[random.below(counts.size())];
    sum += static_cast<double>(*std::ranges::max_element(counts)) / 400;
  }
  EXPECT_LE(sum / 20, expected_largest(400, 100));
  EXPECT_GE(sum / 20, 1 + 0.7 * (expected_largest(400, 100) - 1));
}

}  // namespace
}  // namespace farpage
