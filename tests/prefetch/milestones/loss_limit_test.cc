#include "prefetch/milestones/loss_limit.h"

#include <gtest/gtest.h>

#include <memory>

#include "prefetch/page_list.h"

namespace farpage::prefetch {
namespace {

constexpr int kMost = 384;

class LossLimitTest : public testing::Test {
 protected:
  static Setting setting(uint64_t budget_pages) {
    Setting setting;
    setting.budget_pages = budget_pages;
    return setting;
  }
  void access(PageNumber page) { limit_.on_access({number_++, 0, page}); }
  void miss(PageNumber page) {
    access(page);
    limit_.on_miss(page);
  }
  // Of a page that the shadow has. How many until it is over.
  int lose_all(PageNumber page) {
    int lost = 0;
    for (; limit_.allows() && lost < 10'000; ++lost) miss(page);
    return lost;
  }

  LossLimit limit_{setting(4)};
  uint64_t number_ = 0;
};

// A loop through one page more than there is room for: what was used last never hits.
TEST_F(LossLimitTest, WhoMissesWhatTheShadowMissesIsAllowed) {
  for (PageNumber page = 0; page < 5; ++page) access(page);
  for (PageNumber i = 0; i < 10'000; ++i) miss(i % 5);
  EXPECT_TRUE(limit_.allows());
}
TEST_F(LossLimitTest, WhoMissesWhatTheShadowHitsMayDoSoForAWhile) {
  access(0);
  EXPECT_EQ(lose_all(0), kMost);
}
TEST_F(LossLimitTest, FirstAccessesAreNobodysMisses) {
  access(0);
  EXPECT_EQ(lose_all(0), kMost);
  for (PageNumber page = 1; page < 100'000; ++page) access(page);
  EXPECT_FALSE(limit_.allows());
}
// An engine may have to wait for what it never had.
TEST_F(LossLimitTest, WhoWaitsForFirstAccessesLosesNothing) {
  for (PageNumber page = 0; page < 10'000; ++page) miss(page);
  EXPECT_TRUE(limit_.allows());
  access(9'999);
  for (int i = 0; i < 10'000; ++i) {
    limit_.on_forget(9'999);
    miss(9'999);  // another page each time
  }
  EXPECT_TRUE(limit_.allows());
  EXPECT_EQ(lose_all(9'999), kMost);
}
TEST_F(LossLimitTest, WhoHasLostAllGoesOnWhenAsMuchHasComeTogether) {
  for (PageNumber page = 0; page < 5; ++page) access(page);
  EXPECT_EQ(lose_all(4), kMost);
  uint64_t misses = 0;
  for (; !limit_.allows() && misses < 1'000'000; ++misses) miss(misses % 5);
  EXPECT_NEAR(static_cast<double>(misses) * 0.005, kMost, 2);
  EXPECT_NEAR(lose_all((misses - 1) % 5), kMost, 1);
}
TEST_F(LossLimitTest, WhatWasGainedCountsUpToALimit) {
  for (PageNumber i = 0; i < 100'000; ++i) access(i % 5);
  EXPECT_EQ(lose_all(99'999 % 5), kMost);
}
// What goes first is what was used last: of a loop that is one page too long it misses few, and
// lru all.
TEST_F(LossLimitTest, TheShadowHasTheMemorysPolicy) {
  class Mru final : public Policy {
    void on_access(const Access&) override {}
    void on_insert(PageNumber page, uint64_t) override { pages_.push_back(page); }
    void on_evict(PageNumber page, uint64_t) override { pages_.remove(page); }
    PageNumber victim(uint64_t) override { return pages_.back(); }
    void set_aside(PageNumber) override {}
    void put_back() override {}
    PageList pages_;
  };
  Setting of_mru = setting(4);
  of_mru.make_policy = [] { return std::make_unique<Mru>(); };
  LossLimit limit(of_mru);
  for (PageNumber i = 0; i < 5; ++i) limit.on_access({i, 0, i});
  uint64_t misses = 0;
  for (; limit.allows() && misses < 10'000; ++misses) {
    const auto page = static_cast<PageNumber>(misses % 5);
    limit.on_access({5 + misses, 0, page});
    limit.on_miss(page);
  }
  EXPECT_LT(misses, 10'000u);
}
TEST_F(LossLimitTest, OfAMemoryOfWhichNothingIsKnownAllIsAllowed) {
  LossLimit unknown(setting(0));
  for (int i = 0; i < 1'000; ++i) {
    unknown.on_access({0, 0, 0});
    unknown.on_miss(0);
  }
  EXPECT_TRUE(unknown.allows());
}

}  // namespace
}  // namespace farpage::prefetch
