#include "prefetch/allocations/allocations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr double kThreshold = 0.93;
constexpr double kProbes = 8;
constexpr double kWindow = 128;
constexpr double kFloor = 0.25;

Setting setting_of(uint64_t budget_pages, HeadLayout layout) {
  Setting setting;
  setting.budget_pages = budget_pages;
  setting.layout = layout;
  return setting;
}

// An allocation by accesses of pages that are of the head `page / 1'000`.
class Allocated {
 public:
  Allocated(uint64_t budget_pages, HeadLayout layout, std::vector<double> values)
      : allocation_(reasonalloc().make(setting_of(budget_pages, layout), values)) {}

  bool access(uint64_t step, PageNumber page, double mass) {
    Access access = {number_++, step, page};
    access.head = page / 1'000;
    access.mass = static_cast<float>(mass);
    return allocation_->on_access(access);
  }
  // So many pages of the head, all with that mass. Whether the shares became others.
  bool access_pages(uint64_t step, uint32_t head, PageNumber pages, double mass) {
    bool changed = false;
    for (PageNumber i = 0; i < pages; ++i) changed |= access(step, head * 1'000 + i, mass);
    return changed;
  }
  std::vector<uint64_t> shares() const {
    return {allocation_->shares().begin(), allocation_->shares().end()};
  }

 private:
  std::unique_ptr<Allocation> allocation_;
  uint64_t number_ = 0;
};

TEST(Even, GivesEachHeadTheSameAndTheFirstTheRest) {
  const auto allocation = even().make(setting_of(20, {2, 3}), {});
  EXPECT_THAT(allocation->shares(), ElementsAre(4, 4, 3, 3, 3, 3));
  EXPECT_FALSE(allocation->on_access({0, 1'000, 0}));
}

TEST(ReasonAlloc, LayersShareByThePagesThatHaveMostOfTheirMass) {
  // 4 of 4 equal pages are needed for 0.93 of a layer's mass, of the other layer 1: roots 2 and 1.
  Allocated allocated(30, {2, 1}, {kThreshold, kProbes, kWindow, kFloor});
  for (uint64_t step = 10; step < 18; ++step) {
    EXPECT_FALSE(allocated.access_pages(step, 0, 4, 0.25));
    EXPECT_FALSE(allocated.access(step, 1'000, 0.95));
    EXPECT_FALSE(allocated.access(step, 1'001, 0.05));
    EXPECT_THAT(allocated.shares(), ElementsAre(15, 15));
  }
  EXPECT_TRUE(allocated.access(18, 1'000, 1));
  EXPECT_THAT(allocated.shares(), ElementsAre(20, 10));
}
TEST(ReasonAlloc, AProbeIsATokenOfWhichEveryLayerHasItsTurn) {
  // Layers that are alike have the same share, with a step for all of them or for each.
  constexpr uint32_t kLayers = 16;
  for (const uint64_t steps_a_token : {uint64_t{1}, uint64_t{kLayers}}) {
    Allocated allocated(240, {kLayers, 1}, {kThreshold, kProbes, 2, kFloor});
    for (uint64_t token = 0; token < 20; ++token) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        const uint64_t step = token * steps_a_token + (steps_a_token > 1 ? layer : 0);
        const bool is_due = layer == 0 && token >= kProbes && token % 2 == 0;
        EXPECT_EQ(allocated.access_pages(step, layer, 12, 0.08), is_due) << token;
        EXPECT_THAT(allocated.shares(), Each(15)) << token;
      }
    }
  }
}
TEST(ReasonAlloc, DividesNoOftenerThanAnAccessForTwoHeads) {
  Allocated allocated(80, {1, 8}, {kThreshold, 1, 1, kFloor});
  EXPECT_FALSE(allocated.access(0, 0, 0.5));
  EXPECT_TRUE(allocated.access(1, 0, 0.5));
  for (const uint64_t step : {101, 201, 301}) EXPECT_FALSE(allocated.access(step, 0, 0.5));
  EXPECT_TRUE(allocated.access(401, 0, 0.5));
}
TEST(ReasonAlloc, TheThresholdSaysWhatMassCounts) {
  // 1 of 4 equal pages has a quarter of the mass, and 4 of 16.
  Allocated allocated(60, {2, 1}, {0.25, 1, kWindow, kFloor});
  allocated.access_pages(0, 0, 4, 0.25);
  allocated.access_pages(0, 1, 16, 0.0625);
  allocated.access(1, 0, 0);
  EXPECT_THAT(allocated.shares(), ElementsAre(20, 40));
}
TEST(ReasonAlloc, NoLayerCountsForMoreThanTwiceTheMean) {
  // Roots 10, 1, 1, 1, 1, of which the first counts for 2 · 2.8.
  Allocated allocated(96, {5, 1}, {kThreshold, 1, kWindow, kFloor});
  allocated.access_pages(0, 0, 107, 0.009);  // 100 of them have 0.93 of the mass
  for (uint32_t layer = 1; layer < 5; ++layer) allocated.access(0, layer * 1'000, 0.9);
  allocated.access(1, 0, 0);
  EXPECT_THAT(allocated.shares(), ElementsAre(56, 10, 10, 10, 10));
}
TEST(ReasonAlloc, ALayersBudgetStaysWhatTheProbesSaid) {
  Allocated allocated(30, {2, 1}, {kThreshold, 1, 4, kFloor});
  allocated.access_pages(0, 0, 4, 0.25);
  allocated.access(0, 1'000, 0.9);
  for (uint64_t step = 1; step < 20; ++step) allocated.access_pages(step, 1, 9, 0.1);
  EXPECT_THAT(allocated.shares(), ElementsAre(20, 10));
}

// Of the 14 heaviest of a layer's pages 9, 4 and 1 are of the three heads, whose roots are 3, 2, 1:
// 7, 4.67 and 2.33. The last one has more pages, which are lighter.
void access_three_heads(Allocated& allocated, uint64_t step, const std::vector<uint32_t>& heads) {
  for (PageNumber i = 0; i < 9; ++i) allocated.access(step, heads[0] * 1'000 + i, 0.05 + i * 1e-3);
  for (PageNumber i = 0; i < 4; ++i) allocated.access(step, heads[1] * 1'000 + i, 0.2 + i * 1e-3);
  allocated.access(step, heads[2] * 1'000, 0.9);
  for (PageNumber i = 1; i < 20; ++i) allocated.access(step, heads[2] * 1'000 + i, i * 1e-4);
}
TEST(ReasonAlloc, HeadsShareByWhatIsTheirsOfTheHeaviestPages) {
  Allocated allocated(14, {1, 3}, {kThreshold, 1, kWindow, kFloor});
  access_three_heads(allocated, 0, {0, 1, 2});
  EXPECT_THAT(allocated.shares(), ElementsAre(5, 5, 4));
  allocated.access(1, 0, 0);
  EXPECT_THAT(allocated.shares(), ElementsAre(7, 5, 2));
}
TEST(ReasonAlloc, HeadsSharesAreMadeAnewByWhatCameSinceTheLastTime) {
  Allocated allocated(14, {1, 3}, {kThreshold, 1, 16, kFloor});
  access_three_heads(allocated, 0, {0, 1, 2});
  access_three_heads(allocated, 1, {2, 1, 0});
  for (uint64_t step = 2; step < 17; ++step) EXPECT_FALSE(allocated.access(step, 0, 0));
  EXPECT_THAT(allocated.shares(), ElementsAre(7, 5, 2));
  EXPECT_TRUE(allocated.access(17, 0, 0.9));
  EXPECT_THAT(allocated.shares(), ElementsAre(2, 5, 7));
  // Nothing but the access at step 17 since then: 2/3 for it, a twelfth each for the others. How
  // far steps jump does not matter.
  for (uint64_t i = 1; i < 16; ++i) EXPECT_FALSE(allocated.access(1'000 * i, 0, 0));
  EXPECT_TRUE(allocated.access(16'000, 0, 0));
  EXPECT_THAT(allocated.shares(), ElementsAre(11, 2, 1));
}
TEST(ReasonAlloc, HeadsOfALayerShareItsBudgetAlone) {
  // As above in the second layer, with 14 of 28; the first has no mass, so its heads share alike.
  Allocated allocated(28, {2, 3}, {1, 1, kWindow, kFloor});
  for (uint32_t head = 0; head < 3; ++head) allocated.access_pages(0, head, 11, 0.09);
  access_three_heads(allocated, 0, {3, 4, 5});
  allocated.access(1, 0, 0);
  EXPECT_THAT(allocated.shares(), ElementsAre(5, 5, 4, 7, 5, 2));
}
TEST(ReasonAlloc, EachHeadHasTheFloor) {
  // Four heads have all of the 360 heaviest pages. The others count for a quarter of the mean,
  // which would be 10 pages of 360: the floor is 45 / 4.
  const auto shares_with = [](double floor) {
    Allocated allocated(360, {1, 8}, {kThreshold, 1, kWindow, floor});
    for (uint32_t head = 0; head < 4; ++head) allocated.access_pages(0, head, 90, 0.01);
    allocated.access(1, 0, 0);
    return allocated.shares();
  };
  EXPECT_THAT(shares_with(0), ElementsAre(80, 80, 80, 80, 10, 10, 10, 10));
  EXPECT_THAT(shares_with(0.25), ElementsAre(79, 79, 79, 79, 11, 11, 11, 11));
  EXPECT_THAT(shares_with(1), Each(45));
}
TEST(ReasonAlloc, SharesAddUpToTheBudgetWhateverComes) {
  Random random(5);
  for (const uint64_t budget_pages : {0, 1, 7, 100, 12'345}) {
    Allocated allocated(budget_pages, {3, 5}, {kThreshold, kProbes, 16, kFloor});
    for (uint64_t step = 0; step < 200; ++step) {
      for (int i = 0; i < 20; ++i) {
        const uint64_t head = random.below(15) * random.below(15) / 14;
        const auto page = static_cast<PageNumber>(head * 1'000 + random.below(50));
        allocated.access(step, page, static_cast<double>(random.below(100)) / 1e3);
      }
      const auto shares = allocated.shares();
      ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), uint64_t{0}), budget_pages);
    }
  }
}

}  // namespace
}  // namespace farpage::prefetch
