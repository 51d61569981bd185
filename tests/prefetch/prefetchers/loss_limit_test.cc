#include "prefetch/prefetchers/loss_limit.h"

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
  // A loop through one page more than there is room for: what was used last never hits.
  void miss_with_the_shadow(int times) {
    if (number_ == 0) {
      for (PageNumber page = 0; page < 5; ++page) access(page);
    }
    for (int i = 0; i < times; ++i) {
      miss(next_);
      next_ = (next_ + 1) % 5;
    }
  }
  // Of a page that the shadow has. How many until it is over.
  int lose_all() {
    int lost = 0;
    for (; limit_.allows() && lost < 10'000; ++lost) miss((next_ + 4) % 5);
    return lost;
  }

  LossLimit limit_{setting(4)};
  uint64_t number_ = 0;
  PageNumber next_ = 0;  // of the loop
};

TEST_F(LossLimitTest, NothingIsAllowedBeforeItIsKnownWhatTheMemoryMisses) {
  EXPECT_FALSE(limit_.allows());
  miss_with_the_shadow(740);
  EXPECT_FALSE(limit_.allows());
  miss_with_the_shadow(20);
  EXPECT_TRUE(limit_.allows());
}
TEST_F(LossLimitTest, WhoMissesWhatTheShadowMissesIsAllowed) {
  miss_with_the_shadow(810);
  for (int i = 0; i < 10'000; ++i) {
    miss_with_the_shadow(1);
    ASSERT_TRUE(limit_.allows());
  }
}
TEST_F(LossLimitTest, AtFirstAFiftiethMayBeLostAndInTheEndSoMuch) {
  miss_with_the_shadow(1'000);
  EXPECT_NEAR(lose_all(), 20, 1);
  miss_with_the_shadow(100'000);
  EXPECT_NEAR(lose_all(), kMost, 1);
}
// The prefetcher loses whenever that is allowed.
TEST_F(LossLimitTest, NobodyLosesMoreHoweverOftenItIsTried) {
  int lost = 0;
  for (int shadow = 1; shadow <= 100'000; ++shadow) {
    miss_with_the_shadow(1);
    lost += lose_all();
    ASSERT_LE(lost, shadow <= 19'200 ? shadow * 0.02 + 2 : kMost + (shadow - 19'200) * 0.005 + 2);
  }
  EXPECT_GE(lost, kMost);
}
TEST_F(LossLimitTest, FirstAccessesAreNobodysMisses) {
  miss_with_the_shadow(100'000);
  EXPECT_NEAR(lose_all(), kMost, 1);
  for (PageNumber page = 10; page < 100'000; ++page) access(page);
  EXPECT_FALSE(limit_.allows());
}
// An engine may have to wait for what it never had.
TEST_F(LossLimitTest, WhoWaitsForFirstAccessesLosesNothing) {
  miss_with_the_shadow(100'000);
  for (PageNumber page = 10; page < 10'000; ++page) miss(page);
  EXPECT_TRUE(limit_.allows());
  access(9'999);
  for (int i = 0; i < 10'000; ++i) {
    limit_.on_forget(9'999);
    miss(9'999);  // another page each time
  }
  EXPECT_TRUE(limit_.allows());
}
TEST_F(LossLimitTest, WhoHasLostAllGoesOnWhenAsMuchHasComeTogether) {
  miss_with_the_shadow(100'000);
  EXPECT_NEAR(lose_all(), kMost, 1);
  int misses = 0;
  for (; !limit_.allows() && misses < 1'000'000; ++misses) miss_with_the_shadow(1);
  EXPECT_NEAR(misses * 0.005, kMost, 2);
  EXPECT_NEAR(lose_all(), kMost, 1);
}
TEST_F(LossLimitTest, WhatWasGainedCountsUpToALimit) {
  for (PageNumber i = 0; i < 500; ++i) access(i % 5);  // a 50th of these is 10
  EXPECT_NEAR(lose_all(), kMost, 1);
}
// The page used last goes first: of a loop that is one page too long it misses few, and lru all.
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
  for (PageNumber i = 0; i < 20'000; ++i) {
    for (LossLimit* each : {&limit, &limit_}) {
      each->on_access({i, 0, i % 5});
      each->on_miss(i % 5);
    }
  }
  EXPECT_FALSE(limit.allows());
  EXPECT_TRUE(limit_.allows());
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
