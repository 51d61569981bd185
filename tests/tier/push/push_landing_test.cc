#include "tier/push/push_landing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

constexpr uint64_t kSlotBytes = 128;

// A target that brings what the test says.
class SaidTarget final : public Target {
 public:
  explicit SaidTarget(std::deque<uint32_t>& immediates) : immediates_(immediates) {}
  Result<Region> allocate_writable(uint64_t) override { return fail(Code::kInvalid, ""); }
  size_t poll(std::span<uint32_t> immediates) override {
    size_t count = 0;
    for (; count < immediates.size() && !immediates_.empty(); immediates_.pop_front()) {
      immediates[count++] = immediates_.front();
    }
    return count;
  }
  void wait(uint64_t) override {}
  void close() override {}

 private:
  std::deque<uint32_t>& immediates_;
};

class PushLandingTest : public ::testing::Test {
 protected:
  void arrive(uint32_t immediate, size_t times = 1) {
    for (size_t i = 0; i < times; ++i) immediates_.push_back(immediate);
    landing_.poll();
  }

  std::vector<std::byte> memory_{4 * kSlotBytes};
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  std::deque<uint32_t> immediates_;
  PushLanding landing_{std::make_unique<SaidTarget>(immediates_),
                       fabric_.register_local({memory_.data(), memory_.size()}).value(),
                       kSlotBytes};
};

TEST_F(PushLandingTest, TellsTheGroupsOfEachTransferAndKeepsWhatComesEarly) {
  const uint32_t first = landing_.begin(3).value();
  const uint32_t second = landing_.begin(2).value();
  arrive(second);
  arrive(group_immediate(first, 0));
  arrive(group_immediate(first, 1));
  EXPECT_TRUE(landing_.arrived(first, 0));
  EXPECT_TRUE(landing_.arrived(first, 1));
  EXPECT_FALSE(landing_.arrived(first, 2));
  EXPECT_TRUE(landing_.arrived(second, 0));
  EXPECT_FALSE(landing_.arrived(second, 1));
}

TEST_F(PushLandingTest, AnImmediateThatComesTwiceSaysNothingNew) {
  const uint32_t first = landing_.begin(2).value();
  arrive(first, 3);
  EXPECT_TRUE(landing_.arrived(first, 0));
  EXPECT_FALSE(landing_.arrived(first, 1));
  const uint32_t second = landing_.begin(1).value();
  arrive(first, 2);
  EXPECT_FALSE(landing_.arrived(second, 0));
  EXPECT_FALSE(landing_.arrived(first, 1));
}

TEST_F(PushLandingTest, TheGroupsOfATransferAreApartRoundTheEnd) {
  for (uint32_t counter = 0; counter + 2 < kTransferCounters; ++counter) {
    arrive(landing_.begin(1).value());
  }
  const uint32_t first = landing_.begin(4).value();
  for (uint32_t group = 0; group < 4; ++group) {
    EXPECT_FALSE(landing_.arrived(first, group));
    arrive(group_immediate(first, group));
    EXPECT_TRUE(landing_.arrived(first, group));
  }
}

// Rule 16.
TEST_F(PushLandingTest, AnIdIsUsedAgainOnlyOnceItsLastUseHasArrived) {
  const uint32_t stuck = landing_.begin(2).value();
  arrive(stuck);
  const uint32_t missing = group_immediate(stuck, 1);
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < 3 * kTransferCounters; ++i) {
    const uint32_t immediate = landing_.begin(1).value();
    ASSERT_NE(immediate % kTransferCounters, missing % kTransferCounters);
    ASSERT_EQ(std::ranges::count(used, immediate), 0);
    used.push_back(immediate);
    arrive(immediate);
  }
  arrive(missing);
  bool again = false;
  for (uint32_t i = 0; i < kTransferCounters && !again; ++i) {
    const uint32_t immediate = landing_.begin(1).value();
    again = immediate % kTransferCounters == missing % kTransferCounters;
    // One of the last use that comes after all says nothing.
    if (again) {
      arrive(missing);
      EXPECT_FALSE(landing_.arrived(immediate, 0));
    }
    arrive(immediate);
    EXPECT_TRUE(landing_.arrived(immediate, 0));
  }
  EXPECT_TRUE(again);
}

TEST_F(PushLandingTest, NoMoreImmediatesAreOnTheirWayThanThereAreCounters) {
  std::vector<uint32_t> on_their_way;
  for (uint32_t i = 0; i < kTransferCounters / 64; ++i) {
    on_their_way.push_back(landing_.begin(64).value());
  }
  EXPECT_FALSE(landing_.begin(1).has_value());
  arrive(on_their_way[0]);
  arrive(group_immediate(on_their_way[3], 63));
  EXPECT_TRUE(landing_.begin(2).has_value()) << "the last counter and the first";
  arrive(on_their_way[1]);
  EXPECT_FALSE(landing_.begin(2).has_value());
  EXPECT_TRUE(landing_.begin(1).has_value());
  EXPECT_FALSE(landing_.begin(1).has_value());
}

TEST_F(PushLandingTest, OnePushMayHaveAllCounters) {
  arrive(landing_.begin(1).value());
  for (int round = 0; round < 3; ++round) {
    const uint32_t first = landing_.begin(kTransferCounters).value();
    EXPECT_FALSE(landing_.begin(1).has_value());
    for (uint32_t group = 0; group < kTransferCounters; ++group) {
      ASSERT_FALSE(landing_.arrived(first, group));
      arrive(group_immediate(first, group));
    }
  }
}

TEST_F(PushLandingTest, KnowsWhetherPlacesAreLent) {
  EXPECT_EQ(landing_.pool().pages(), 4u);
  EXPECT_FALSE(landing_.lent());
  auto place = landing_.pool().take();
  EXPECT_TRUE(landing_.lent());
  landing_.quarantine(std::move(*place), landing_.begin(1).value(), 0);
  EXPECT_FALSE(landing_.lent());
}

// I4.
TEST_F(PushLandingTest, AQuarantinedPlaceComesBackOnlyWhenItsGroupIsThere) {
  const uint32_t first = landing_.begin(2).value();
  std::vector<PageLease> places;
  while (auto place = landing_.pool().take()) places.push_back(std::move(*place));
  const uint32_t index = places.back().index();
  landing_.quarantine(std::move(places.back()), first, 1);
  EXPECT_EQ(landing_.quarantined_pages(), 1u);
  arrive(first);
  landing_.collect();
  EXPECT_FALSE(landing_.pool().take()) << "another group has arrived";
  arrive(group_immediate(first, 1));
  landing_.collect();
  EXPECT_EQ(landing_.quarantined_pages(), 0u);
  const auto place = landing_.pool().take();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->index(), index);
}

}  // namespace
}  // namespace farpage
