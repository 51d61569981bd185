#include "lab/vtime/near_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/random.h"

namespace farpage::vtime {
namespace {

using prefetch::PageNumber;
using testing::ElementsAre;
using testing::IsEmpty;

// Evicts the newest page first; checks everything that it hears.
class LastInFirstOut final : public prefetch::Policy {
 public:
  void on_access(const prefetch::Access&) override {}
  void on_insert(PageNumber page, uint64_t) override {
    EXPECT_EQ(std::ranges::count(pages, page), 0);
    pages.push_back(page);
  }
  void on_evict(PageNumber page, uint64_t) override {
    EXPECT_EQ(std::erase(pages, page), 1u);
    gone.push_back(page);
  }
  PageNumber victim(uint64_t) override { return pages.at(pages.size() - 1 - aside_); }
  void set_aside(PageNumber page) override {
    EXPECT_EQ(page, victim(0));
    ++aside_;
  }
  void put_back() override { aside_ = 0; }

  std::vector<PageNumber> pages;
  std::vector<PageNumber> gone;

 private:
  size_t aside_ = 0;
};

TEST(NearMemory, ThePolicyHearsOfAHeldPageWhenItIsUsed) {
  LastInFirstOut policy;
  NearMemory near(3, policy);
  near.hold(7, 10);
  EXPECT_TRUE(near.contains(7));
  EXPECT_THAT(policy.pages, IsEmpty());
  near.use(7, 4);
  EXPECT_TRUE(near.contains(7));
  EXPECT_THAT(policy.pages, ElementsAre(7));
  near.use(7, 5);
  EXPECT_THAT(policy.pages, ElementsAre(7));
}
TEST(NearMemory, ThePolicyHearsOfAHeldPageWhenItWasHeldLongEnough) {
  LastInFirstOut policy;
  NearMemory near(3, policy);
  near.hold(7, 10);
  near.hold(8, 11);
  near.end_holds(10, 0, [](PageNumber) {});
  EXPECT_THAT(policy.pages, IsEmpty());
  near.end_holds(11, 0, [](PageNumber) {});
  EXPECT_THAT(policy.pages, ElementsAre(7));
  EXPECT_TRUE(near.contains(7));
  EXPECT_TRUE(near.contains(8));
}
TEST(NearMemory, ADemandTakesAHeldPageOnlyWhereThereIsNoOther) {
  LastInFirstOut policy;
  NearMemory near(2, policy);
  near.insert(1, 0);
  near.hold(7, 10);
  EXPECT_TRUE(near.is_full());
  EXPECT_EQ(near.insert(2, 1), 1u);
  EXPECT_TRUE(near.contains(7));

  LastInFirstOut other;
  NearMemory smallest(1, other);
  smallest.hold(7, 10);
  EXPECT_EQ(smallest.insert(1, 1), 7u);
  EXPECT_FALSE(smallest.contains(7));
  EXPECT_TRUE(smallest.contains(1));
}
TEST(NearMemory, HalfOfItMayBeHeld) {
  LastInFirstOut policy;
  EXPECT_EQ(NearMemory(0, policy).room_ahead(), 0u);
  EXPECT_EQ(NearMemory(1, policy).room_ahead(), 1u);
  NearMemory near(8, policy);
  EXPECT_EQ(near.room_ahead(), 4u);
  near.hold(7, 10);
  EXPECT_EQ(near.room_ahead(), 3u);
  near.use(7, 1);
  EXPECT_EQ(near.room_ahead(), 4u);
}
TEST(NearMemory, WhatWasOfNoUseTakesTheRoomOfMoreUpToASmallPart) {
  LastInFirstOut policy;
  NearMemory near(640, policy);
  for (PageNumber page = 0; page < 256; ++page) near.hold(page, 0);
  near.end_holds(1, 0, [](PageNumber) {});
  EXPECT_EQ(near.room_ahead(), 117u);  // 320 · (255 / 256)²⁵⁶
  for (PageNumber page = 0; page < 256; ++page) {
    near.evict(page, 1);
  }
  near.count_use();
  EXPECT_EQ(near.room_ahead(), 118u);  // 117.49 + 202.5 / 256
  for (PageNumber i = 0; i < 4'000; ++i) {
    near.hold(0, 0);
    near.end_holds(1, 0, [](PageNumber) {});
    near.evict(0, 1);
  }
  EXPECT_EQ(near.room_ahead(), 10u);
  for (PageNumber page = 0; page < 10; ++page) near.hold(page, 10);
  EXPECT_EQ(near.room_ahead(), 0u);
  for (int i = 0; i < 4'000; ++i) near.count_use();
  EXPECT_EQ(near.room_ahead(), 309u);
}
TEST(NearMemory, WhatHasToStayStaysAndTheNextOneGoes) {
  LastInFirstOut policy;
  NearMemory near(4, policy);
  for (PageNumber page = 0; page < 4; ++page) near.insert(page, 0);
  EXPECT_EQ(near.victim(1, [](PageNumber page) { return page >= 2; }), 1U);
  near.evict(1, 1);
  near.hold(7, 10);
  EXPECT_TRUE(near.is_full());
  EXPECT_TRUE(near.contains(2) && near.contains(3));
  EXPECT_EQ(near.victim(1, [](PageNumber) { return true; }), std::nullopt);
  EXPECT_TRUE(near.is_full());
  near.end_evictions();
  EXPECT_THAT(policy.pages, ElementsAre(0, 2, 3));
  EXPECT_EQ(near.victim(2, [](PageNumber) { return false; }), 3U);
}
TEST(NearMemory, ThePolicyHearsOfNoEvictionButThoseThatHappen) {
  LastInFirstOut policy;
  NearMemory near(4, policy);
  for (PageNumber page = 0; page < 4; ++page) near.insert(page, 0);
  near.evict(*near.victim(1, [](PageNumber page) { return page != 1; }), 1);
  near.end_evictions();
  EXPECT_THAT(policy.gone, ElementsAre(1));
  EXPECT_THAT(policy.pages, ElementsAre(0, 2, 3));
}
TEST(NearMemory, WithoutABudgetNothingIsNear) {
  LastInFirstOut policy;
  NearMemory near(0, policy);
  EXPECT_EQ(near.insert(1, 0), std::nullopt);
  EXPECT_FALSE(near.contains(1));
}

RC_GTEST_PROP(NearMemoryProperty, HasWhatCameAndDidNotGoAndNeverMoreThanItsBudget,
              (uint32_t seed)) {
  Random random(seed);
  const uint64_t budget_pages = 1 + random.below(9);
  LastInFirstOut policy;
  NearMemory near(budget_pages, policy);
  std::set<PageNumber> expected;
  for (uint64_t step = 0; step < 300; ++step) {
    near.end_holds(step, step, [](PageNumber) {});
    const auto page = static_cast<PageNumber>(random.below(20));
    if (random.below(2) == 0) {
      if (near.contains(page)) {
        near.use(page, step);
      } else if (const auto gone = near.insert(page, step)) {
        RC_ASSERT(expected.erase(*gone) == 1u);
      }
      expected.insert(page);
      RC_ASSERT(std::ranges::count(policy.pages, page) == 1);
    } else if (!near.contains(page) && near.room_ahead() > 0) {
      if (near.is_full()) {
        const auto victim =
            near.victim(step, [&](PageNumber named) { return (named + step) % 3 == 0; });
        if (victim) {
          RC_ASSERT((*victim + step) % 3 != 0);
          near.evict(*victim, step);
          RC_ASSERT(expected.erase(*victim) == 1u);
        }
        near.end_evictions();
      }
      if (!near.is_full()) {
        near.hold(page, step + random.below(5));
        expected.insert(page);
      }
    }
    RC_ASSERT(expected.size() <= budget_pages);
    RC_ASSERT(near.is_full() == (expected.size() == budget_pages));
    for (PageNumber each = 0; each < 20; ++each) {
      RC_ASSERT(near.contains(each) == expected.contains(each));
    }
  }
}

}  // namespace
}  // namespace farpage::vtime
