#include "prefetch/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

using State = Scheduler::State;
using testing::ElementsAre;

// Remembers what was begun, as far as it has room.
class Begun final : public PageSource {
 public:
  bool begin(PageNumber page) override {
    if (room == 0) return false;
    --room;
    pages.push_back(page);
    return true;
  }

  size_t room = SIZE_MAX;
  std::vector<PageNumber> pages;
};

struct SchedulerTest : testing::Test {
  void plan(const std::vector<PageNumber>& pages, uint64_t step = 1) {
    scheduler.plan(pages, step);
    scheduler.begin();
  }

  void announce(const std::vector<PageNumber>& pages) {
    for (const PageNumber page : pages) scheduler.announce(page);
  }
  void withdraw(const std::vector<PageNumber>& pages) {
    for (const PageNumber page : pages) scheduler.withdraw(page);
  }

  Begun source;
  Scheduler scheduler{{.most_waiting = 100, .most_under_way = 2, .useful_steps = 10}, source};
  const PrefetchAccount& account = scheduler.account();
};

TEST_F(SchedulerTest, BeginsTheLikeliestFirstAndAsManyAsTheWindowHolds) {
  plan({5, 3, 4});
  EXPECT_THAT(source.pages, ElementsAre(5, 3));
  EXPECT_TRUE(scheduler.waits(4));
  EXPECT_EQ(scheduler.under_way(), 2u);
  EXPECT_EQ(scheduler.on_landed(3, true), State::kUnderWay);
  EXPECT_EQ(scheduler.state(3), State::kHere);
  scheduler.begin();
  EXPECT_THAT(source.pages, ElementsAre(5, 3, 4));
  EXPECT_EQ(account.asked, 3u);
  EXPECT_EQ(account.begun, 3u);
}

TEST_F(SchedulerTest, WhatTheSourceHasNoRoomForWaitsOn) {
  source.room = 1;
  plan({1, 2});
  EXPECT_THAT(source.pages, ElementsAre(1));
  EXPECT_TRUE(scheduler.waits(2));
  source.room = 1;
  scheduler.begin();
  EXPECT_THAT(source.pages, ElementsAre(1, 2));
}

TEST_F(SchedulerTest, NothingIsBegunTwice) {
  plan({1, 1, 2, 3, 3});
  plan({1, 2, 3});
  announce({1, 3});
  scheduler.on_landed(1, true);
  scheduler.begin();
  plan({1, 3});
  EXPECT_THAT(source.pages, ElementsAre(1, 2, 3));
  EXPECT_EQ(account.asked, 3u);
  EXPECT_EQ(scheduler.waiting(), 0u);
}

TEST_F(SchedulerTest, WhatIsExpectedNoMoreIsCancelled) {
  plan({1, 2, 3, 4});
  plan({4, 5});
  EXPECT_FALSE(scheduler.waits(3));
  EXPECT_EQ(account.asked, 5u);
  EXPECT_EQ(account.cancelled, 1u);
  scheduler.on_landed(1, true);
  scheduler.begin();
  EXPECT_THAT(source.pages, ElementsAre(1, 2, 4));
}

TEST_F(SchedulerTest, WhatIsDemandedWhileItWaitsIsNoPrefetch) {
  plan({1, 2, 3});
  EXPECT_EQ(scheduler.demand(3, 2), State::kNone);
  scheduler.on_landed(1, true);
  scheduler.begin();
  EXPECT_THAT(source.pages, ElementsAre(1, 2));
  EXPECT_EQ(account.overtaken, 1u);
}

TEST_F(SchedulerTest, WhatIsDemandedWhileUnderWayIsJoinedAndWasLate) {
  plan({1, 2});
  EXPECT_EQ(scheduler.demand(1, 2), State::kUnderWay);
  EXPECT_EQ(scheduler.demand(1, 2), State::kJoined);
  EXPECT_EQ(account.late, 0u);
  EXPECT_EQ(scheduler.on_landed(1, true), State::kJoined);
  EXPECT_EQ(scheduler.state(1), State::kNone);
  EXPECT_EQ(account.late, 1u);
}

TEST_F(SchedulerTest, WhatIsHereWhenItIsDemandedWasTimely) {
  plan({1});
  scheduler.on_landed(1, true);
  EXPECT_EQ(scheduler.demand(1, 11), State::kHere);
  EXPECT_EQ(scheduler.demand(1, 11), State::kNone);
  EXPECT_EQ(account.timely, 1u);
}

TEST_F(SchedulerTest, WhatIsDemandedTooLateWasOfNoUse) {
  plan({1, 2});
  scheduler.on_landed(1, true);
  scheduler.demand(1, 12);
  scheduler.demand(2, 12);
  scheduler.on_landed(2, true);
  EXPECT_EQ(account.unused, 2u);
  EXPECT_EQ(account.useful(), 0u);
}

TEST_F(SchedulerTest, WhatGoesWithoutUseIsToldApart) {
  plan({1, 2});
  scheduler.on_landed(1, true);
  scheduler.on_landed(2, true);
  scheduler.expire(1);
  scheduler.evict(2);
  scheduler.evict(2);
  scheduler.evict(7);
  EXPECT_EQ(account.unused, 1u);
  EXPECT_EQ(account.evicted, 1u);
  EXPECT_EQ(scheduler.demand(1, 2), State::kNone);
}

TEST_F(SchedulerTest, WhatDoesNotComeHasFailedAndMayBeNamedAgain) {
  plan({1, 2});
  scheduler.demand(2, 2);
  EXPECT_EQ(scheduler.on_landed(1, false), State::kUnderWay);
  EXPECT_EQ(scheduler.on_landed(2, false), State::kJoined);
  EXPECT_EQ(account.failed, 2u);
  EXPECT_EQ(account.late, 0u);
  plan({1});
  EXPECT_THAT(source.pages, ElementsAre(1, 2, 1));
}

TEST_F(SchedulerTest, WhatIsAnnouncedComesAfterThePlanAndOutlivesIt) {
  announce({7, 8, 9});
  plan({1});
  EXPECT_THAT(source.pages, ElementsAre(1, 7));
  plan({}, 2);
  withdraw({9, 1, 100});
  EXPECT_EQ(account.cancelled, 1u);
  scheduler.on_landed(1, true);
  scheduler.on_landed(7, true);
  scheduler.begin();
  EXPECT_THAT(source.pages, ElementsAre(1, 7, 8));
  // A request may wait for longer than what a plan expects.
  scheduler.demand(7, 1'000);
  EXPECT_EQ(account.timely, 1u);
}

TEST_F(SchedulerTest, WhatIsAnnouncedIsOfUseWheneverThoughAPlanNamesItToo) {
  announce({3});
  plan({3, 4});
  announce({4});
  scheduler.on_landed(3, true);
  scheduler.on_landed(4, true);
  scheduler.demand(3, 1'000);
  scheduler.demand(4, 1'000);
  EXPECT_EQ(account.timely, 2u);
}

TEST_F(SchedulerTest, WhatIsCancelledWaitsOnOnlyIfItIsAnnounced) {
  source.room = 0;
  announce({5});
  plan({1, 5});
  scheduler.cancel(1);
  scheduler.cancel(5);
  scheduler.cancel(9);
  EXPECT_FALSE(scheduler.waits(1));
  EXPECT_TRUE(scheduler.waits(5));
  EXPECT_EQ(account.cancelled, 1u);
}

TEST_F(SchedulerTest, WhatAPlanNamesNoMoreWaitsOnIfItIsAnnounced) {
  announce({3});
  source.room = 0;
  plan({3, 4});
  EXPECT_EQ(account.asked, 2u);
  EXPECT_EQ(scheduler.waiting(), 2u) << "named and announced, and waits once";
  plan({});
  EXPECT_EQ(scheduler.waiting(), 1u);
  EXPECT_TRUE(scheduler.waits(3));
  EXPECT_EQ(account.cancelled, 1u);
}

TEST_F(SchedulerTest, WhoAsksForEverythingIsRefusedWhatIsTooMuch) {
  std::vector<PageNumber> all(100'000);
  for (PageNumber page = 0; page < all.size(); ++page) all[page] = page;
  source.room = 0;
  plan(all);
  EXPECT_EQ(scheduler.waiting(), 100u);
  EXPECT_EQ(account.refused, all.size() - 100);
  announce({100'000});
  EXPECT_EQ(account.refused, all.size() - 99);
  plan({});
  EXPECT_EQ(account.cancelled, 100u);
}

TEST_F(SchedulerTest, NothingIsBegunWhileDemandsFeelIt) {
  for (int i = 0; i < 20; ++i) scheduler.on_demand(PrefetchWindow::Read::kPage, 1'000, false);
  plan({1});
  EXPECT_TRUE(scheduler.is_beside());
  scheduler.on_demand(PrefetchWindow::Read::kPage, 2'000, true);
  scheduler.on_demand(PrefetchWindow::Read::kPage, 2'000, true);
  scheduler.on_landed(1, true);
  EXPECT_FALSE(scheduler.is_beside());
  scheduler.plan(std::vector<PageNumber>{2}, 2);
  // The pause of one plan has passed with this one; the next lasts two.
  scheduler.begin();
  scheduler.on_demand(PrefetchWindow::Read::kPage, 2'000, true);
  scheduler.on_landed(2, true);
  plan({3}, 3);
  EXPECT_THAT(source.pages, ElementsAre(1, 2));
  EXPECT_TRUE(scheduler.waits(3));
  plan({3}, 4);
  EXPECT_THAT(source.pages, ElementsAre(1, 2, 3));
}

RC_GTEST_PROP(SchedulerProperty, EveryPageIsAccountedFor, (uint32_t seed)) {
  Random random(seed);
  Begun source;
  Scheduler scheduler({.most_waiting = 6, .most_under_way = 4, .useful_steps = 2}, source);
  std::set<PageNumber> here;
  std::vector<PageNumber> under_way;
  const auto draw = [&] { return static_cast<PageNumber>(random.below(12)); };
  for (uint64_t step = 0; step < 200; ++step) {
    std::vector<PageNumber> pages;
    for (uint64_t i = random.below(8); i > 0; --i) pages.push_back(draw());
    if (random.below(3) > 0) scheduler.plan(pages, step);
    if (random.below(4) == 0)
      std::ranges::for_each(pages, [&](PageNumber page) { scheduler.announce(page); });
    if (random.below(4) == 0)
      std::ranges::for_each(pages, [&](PageNumber page) { scheduler.withdraw(page); });
    scheduler.begin();
    under_way.insert(under_way.end(), source.pages.begin(), source.pages.end());
    source.pages.clear();
    RC_ASSERT(std::set(under_way.begin(), under_way.end()).size() == under_way.size());
    while (!under_way.empty() && random.below(2) == 0) {
      const bool is_whole = random.below(8) > 0;
      const PageNumber page = under_way.back();
      under_way.pop_back();
      if (scheduler.on_landed(page, is_whole) == State::kUnderWay && is_whole) here.insert(page);
    }
    const PageNumber demanded = draw();
    const State was = scheduler.demand(demanded, step);
    RC_ASSERT((was == State::kHere) == (here.erase(demanded) > 0));
    const PageNumber going = draw();
    if (random.below(2) == 0) {
      scheduler.evict(going);
      here.erase(going);
    }
    const PrefetchAccount& account = scheduler.account();
    uint64_t waiting = 0;
    for (PageNumber page = 0; page < 12; ++page) waiting += scheduler.waits(page) ? 1 : 0;
    RC_ASSERT(scheduler.waiting() == waiting);
    RC_ASSERT(account.asked == account.begun + account.cancelled + account.overtaken + waiting);
    RC_ASSERT(account.begun == account.useful() + account.unused + account.evicted +
                                   account.failed + under_way.size() + here.size());
    RC_ASSERT(scheduler.under_way() == under_way.size());
  }
}

}  // namespace
}  // namespace farpage::prefetch
