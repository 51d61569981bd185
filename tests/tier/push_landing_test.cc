#include "tier/push_landing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "transport/sim/sim_fabric.h"
#include "transport/sim/world.h"

namespace farpage {
namespace {

constexpr uint64_t kSlotBytes = 128;

// A channel that brings what the test says.
class SaidChannel final : public Channel {
 public:
  explicit SaidChannel(std::deque<uint32_t>& immediates) : immediates_(immediates) {}
  Result<Region> allocate_writable(uint64_t) override { return fail(Code::kInvalid, ""); }
  Result<RemoteRegion> import_region(RegionExport) override { return fail(Code::kInvalid, ""); }
  PostResult post(std::span<const Operation>, uint64_t) override { return {}; }
  size_t poll(std::span<Completion> completions) override {
    size_t count = 0;
    for (; count < completions.size() && !immediates_.empty(); immediates_.pop_front()) {
      completions[count] = {};
      completions[count].kind = CompletionKind::kImmediate;
      completions[count++].immediate = immediates_.front();
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
  PushLanding landing_{std::make_unique<SaidChannel>(immediates_),
                       fabric_.register_local({memory_.data(), memory_.size()}).value(),
                       kSlotBytes};
};

TEST_F(PushLandingTest, CountsTheGroupsOfEachTransferAndKeepsWhatComesEarly) {
  const uint32_t first = landing_.begin(3).value();
  const uint32_t second = landing_.begin(2).value();
  EXPECT_NE(first, second);
  arrive(second);
  arrive(first, 2);
  EXPECT_EQ(landing_.arrived(first), 2u);
  EXPECT_EQ(landing_.arrived(second), 1u);
}

// Rule 16.
TEST_F(PushLandingTest, AnIdIsUsedAgainOnlyOnceItsLastUseHasArrived) {
  const uint32_t stuck = landing_.begin(2).value();
  arrive(stuck);
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < 3 * kTransferCounters; ++i) {
    const uint32_t immediate = landing_.begin(1).value();
    ASSERT_NE(immediate % kTransferCounters, stuck % kTransferCounters);
    ASSERT_EQ(std::ranges::count(used, immediate), 0);
    used.push_back(immediate);
    arrive(immediate);
  }
  arrive(stuck);
  bool again = false;
  for (uint32_t i = 0; i < kTransferCounters && !again; ++i) {
    const uint32_t immediate = landing_.begin(1).value();
    again = immediate % kTransferCounters == stuck % kTransferCounters;
    EXPECT_NE(immediate, stuck) << "another generation";
    // One of the last use that comes after all advances nothing.
    if (again) {
      arrive(stuck);
      EXPECT_EQ(landing_.arrived(immediate), 0u);
    }
    arrive(immediate);
    EXPECT_EQ(landing_.arrived(immediate), 1u);
  }
  EXPECT_TRUE(again);
}

TEST_F(PushLandingTest, NoMoreImmediatesAreOnTheirWayThanReceivesAreThere) {
  std::vector<uint32_t> on_their_way;
  for (uint32_t i = 0; i < PushLanding::kMostAwaited / 64; ++i) {
    on_their_way.push_back(landing_.begin(64).value());
  }
  EXPECT_FALSE(landing_.begin(1).has_value());
  arrive(on_their_way.front());
  EXPECT_TRUE(landing_.begin(1).has_value());
  EXPECT_FALSE(landing_.begin(1).has_value());
}

TEST_F(PushLandingTest, KnowsWhetherPlacesAreLent) {
  EXPECT_EQ(landing_.pool().pages(), 4u);
  EXPECT_FALSE(landing_.lent());
  auto place = landing_.pool().take();
  EXPECT_TRUE(landing_.lent());
  std::move(*place).quarantine([] { return false; });
  EXPECT_FALSE(landing_.lent());
}

}  // namespace
}  // namespace farpage
