#include "node/store/ranked_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace farpage {
namespace {

using prefetch::Access;
using prefetch::PageNumber;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kSlots = 100;

// Names the lowest number, and keeps what it hears.
class Lowest final : public prefetch::Policy {
 public:
  explicit Lowest(std::vector<std::string>& heard) : heard_(heard) {}

  void on_access(const Access& access) override {
    EXPECT_EQ(access.number, accesses_++);
    EXPECT_EQ(access.step, access.number);
    hear("access", access.page);
  }
  void on_insert(PageNumber page, uint64_t step) override {
    EXPECT_EQ(step + 1, accesses_);
    EXPECT_TRUE(resident_.insert(page).second);
    hear("insert", page);
  }
  void on_evict(PageNumber page, uint64_t) override {
    EXPECT_EQ(resident_.erase(page), 1u);
    hear("evict", page);
  }
  void on_forget(PageNumber page) override {
    EXPECT_FALSE(resident_.contains(page));
    hear("forget", page);
  }
  PageNumber victim(uint64_t) override {
    EXPECT_LT(aside_.size(), resident_.size());
    return *std::ranges::find_if(resident_,
                                 [&](PageNumber page) { return !aside_.contains(page); });
  }
  void set_aside(PageNumber page) override { aside_.insert(page); }
  void put_back() override { aside_.clear(); }

 private:
  void hear(const char* what, PageNumber page) {
    heard_.push_back(what + (' ' + std::to_string(page)));
  }

  std::vector<std::string>& heard_;
  std::set<PageNumber> resident_;
  std::set<PageNumber> aside_;
  uint64_t accesses_ = 0;
};

class RankedPagesTest : public testing::Test {
 protected:
  static PageKey key(uint64_t number) { return {number, ~number}; }
  std::vector<std::string> heard() { return std::exchange(heard_, {}); }
  void put(uint64_t number, uint32_t slot) {
    pages_.want(key(number));
    pages_.come(key(number), slot);
  }

 private:
  std::vector<std::string> heard_;

 protected:
  RankedPages pages_{std::make_unique<Lowest>(heard_), kSlots};
};

TEST_F(RankedPagesTest, APutIsAnAccessBeforeThePageComes) {
  pages_.want(key(7));
  EXPECT_THAT(heard(), ElementsAre("access 0"));
  pages_.come(key(7), 3);
  EXPECT_THAT(heard(), ElementsAre("insert 0"));
}

// It waits for a slot, and asks again and again.
TEST_F(RankedPagesTest, APutThatWaitsIsOneAccess) {
  for (int i = 0; i < 3; ++i) pages_.want(key(7));
  pages_.come(key(7), 3);
  EXPECT_THAT(heard(), ElementsAre("access 0", "insert 0"));
  pages_.want(key(7));
  EXPECT_THAT(heard(), ElementsAre("access 0")) << "the next one is another";
}

TEST_F(RankedPagesTest, AFillIsAnAccessOfWhatIsNotKnownAlone) {
  pages_.come(key(7), 3);
  EXPECT_THAT(heard(), ElementsAre("access 0", "insert 0"));
  pages_.go(3);
  pages_.come(key(7), 4);
  EXPECT_THAT(heard(), ElementsAre("evict 0", "insert 0"));
}

TEST_F(RankedPagesTest, APageThatGoesIsKnownWhenItComesBack) {
  put(7, 3);
  put(8, 4);
  pages_.go(3);
  put(9, 3);
  heard();
  put(7, 5);
  EXPECT_THAT(heard(), ElementsAre("access 0", "insert 0"));
}

TEST_F(RankedPagesTest, ANewVersionStaysThePageThatItWas) {
  put(7, 3);
  heard();
  put(7, 4);
  EXPECT_THAT(heard(), ElementsAre("access 0"));
  pages_.go(3);
  EXPECT_THAT(heard(), IsEmpty()) << "it lies in the other slot";
  pages_.use(3);
  EXPECT_THAT(heard(), IsEmpty());
  pages_.use(4);
  EXPECT_THAT(heard(), ElementsAre("access 0"));
}

TEST_F(RankedPagesTest, UsesOfSlotsWithoutAPageAreNone) {
  put(7, 3);
  pages_.go(3);
  heard();
  for (const uint32_t slot : {0U, 3U, kSlots - 1, kSlots, UINT32_MAX}) pages_.use(slot);
  EXPECT_THAT(heard(), IsEmpty());
}

TEST_F(RankedPagesTest, TheNumberOfWhatWasGoneForLongestIsGivenAgain) {
  constexpr uint64_t kNumbers = RankedPages::kNumbersPerSlot * kSlots;
  for (uint64_t number = 0; number < kNumbers; ++number) {
    put(number, 3);
    if (number != 2) pages_.go(3);  // of those that go, 0 and 1 are the first
    if (number == 2) {
      put(number, 4);  // stays
      pages_.go(3);
    }
  }
  pages_.want(key(0));  // is wanted since, and 1 is not
  heard();
  put(kNumbers, 5);
  EXPECT_THAT(heard(), ElementsAre("forget 1", "access 1", "insert 1"));
  pages_.want(key(1));
  EXPECT_THAT(heard(), ElementsAre("forget 3", "access 3")) << "2 has never gone";
  pages_.want(key(0));
  EXPECT_THAT(heard(), IsEmpty()) << "it is wanted already";
}

TEST_F(RankedPagesTest, WhatMayNotGoIsPassedOverAndStaysWhereItWas) {
  for (uint32_t i = 0; i < 5; ++i) put(i, 10 + i);
  EXPECT_EQ(pages_.victim([](uint32_t slot) { return slot > 12; }), 13u);
  EXPECT_EQ(pages_.victim([](uint32_t) { return true; }), 10u);
  EXPECT_EQ(pages_.victim([](uint32_t) { return false; }), std::nullopt);
  EXPECT_EQ(pages_.victim([](uint32_t) { return true; }), 10u);
}

TEST_F(RankedPagesTest, NoMoreThanSoManyAreAskedAbout) {
  EXPECT_EQ(pages_.victim([](uint32_t) { return true; }), std::nullopt);
  for (uint32_t i = 0; i < kSlots; ++i) put(i, i);
  uint32_t asked = 0;
  EXPECT_EQ(pages_.victim([&](uint32_t) { return ++asked > 64; }), std::nullopt);
  EXPECT_EQ(asked, 64u);
  EXPECT_EQ(pages_.victim([](uint32_t slot) { return slot == 63; }), 63u);
}

}  // namespace
}  // namespace farpage
