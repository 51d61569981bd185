#include "prefetch/policies/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/registry/registry.h"
#include "tests/prefetch/evictions.h"

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;

// One each `gap_steps`, each with a mass, a head and a category of its own.
std::vector<Access> accesses_to(const std::vector<PageNumber>& pages, uint64_t gap_steps = 1) {
  std::vector<Access> accesses;
  for (const PageNumber page : pages) {
    Access access = {accesses.size(), accesses.size() * gap_steps, page};
    access.mass = static_cast<float>(page * 7 % 5) * static_cast<float>(access.step % 3) * 5e-5F;
    access.head = page % 5;
    access.category = page < 100 ? 0 : page < 1'000 ? 1 : 2;
    accesses.push_back(access);
  }
  return accesses;
}
std::vector<PageNumber> evicted(const std::string& name, uint64_t budget_pages,
                                const std::vector<PageNumber>& pages) {
  return evicted_of(name, budget_pages, accesses_to(pages));
}

TEST(Lru, EvictsWhatWasAccessedLongestAgo) {
  EXPECT_THAT(evicted("lru", 3, {0, 1, 2, 0, 3, 4}), ElementsAre(1, 2));
}
TEST(Fifo, EvictsWhatCameLongestAgoThoughItIsUsed) {
  EXPECT_THAT(evicted("fifo", 3, {0, 1, 2, 0, 3, 0}), ElementsAre(0, 1));
}
TEST(Recency, EvictsTheOldestPageHoweverOftenItComes) {
  EXPECT_THAT(evicted("recency", 2, {0, 1, 2, 0, 3, 0, 4}), ElementsAre(0, 1, 0, 2, 0));
}
TEST(Lfu, ForgetsTheCountOfWhatWent) {
  // 1 is accessed three times, goes, and comes back as new as 4.
  EXPECT_THAT(evicted("lfu", 2, {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 1, 3}), ElementsAre(1, 0, 1));
}
TEST(HeavyHitter, RemembersTheCountOfWhatWent) {
  EXPECT_THAT(evicted("heavy_hitter", 2, {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 1, 3}),
              ElementsAre(1, 0, 2));
}
TEST(HeavyHitter, EvictsOfEqualCountsWhatWasAccessedLongestAgo) {
  EXPECT_THAT(evicted("heavy_hitter", 2, {0, 1, 0, 1, 2}), ElementsAre(0));
}
TEST(Predictive, LetsAHundredStepsOutweighAnAccess) {
  std::vector<PageNumber> pages = {0, 0};
  for (int i = 0; i < 150; ++i) pages.push_back(1);
  pages.insert(pages.end(), {2, 3});
  // 2 was accessed once, at step 152; 0 twice, last at step 1.
  EXPECT_THAT(evicted("predictive", 3, pages), ElementsAre(0));
  EXPECT_THAT(evicted("heavy_hitter", 3, pages), ElementsAre(2));
}
TEST(WindowedRecency, ForgetsAccessesOutsideTheWindow) {
  const std::vector<PageNumber> pages = {0, 0, 0, 1, 2, 1, 2, 3};
  EXPECT_THAT(evicted("windowed_recency:window=4", 3, pages), ElementsAre(0));
  EXPECT_THAT(evicted("windowed_recency:window=100", 3, pages), ElementsAre(1));
}
TEST(CostAware, EvictsTheLargerOfEquallyUsed) {
  Setting setting;
  setting.page_bytes = [](PageNumber page) { return page == 1 ? uint64_t{9'000} : 1'000; };
  const auto policy = cost_aware().make(setting, std::vector<double>{2, 0.4});
  for (const PageNumber page : {0u, 1u}) {
    policy->on_access({page, page, page});
    policy->on_insert(page, page);
  }
  EXPECT_EQ(policy->victim(2), 1u);
}
TEST(RegretAware, KeepsWhatWasMissedSoonAfterItWent) {
  const std::vector<PageNumber> pages = {0, 1, 2, 0, 3};
  // 0 goes for 2 and is wanted at once; then it outweighs 2, which nobody missed.
  EXPECT_THAT(evicted("regret_aware", 2, pages), ElementsAre(0, 1, 2));
  EXPECT_THAT(evicted("regret_aware:regret=0:frequency=0", 2, pages), ElementsAre(0, 1, 2));
  const std::vector<PageNumber> late = {0, 1, 2, 0, 2, 2, 3};
  EXPECT_THAT(evicted("regret_aware", 2, late), ElementsAre(0, 1, 2));
  EXPECT_THAT(evicted("regret_aware:regret=0", 2, late), ElementsAre(0, 1, 0));
}
TEST(Belady, EvictsWhatIsWantedLast) {
  EXPECT_THAT(evicted("belady", 3, {0, 1, 2, 3, 1, 0, 2, 3}), ElementsAre(2, 0));
}
TEST(S3Fifo, LetsOneTimersPassAndKeepsWhatIsUsed) {
  // A small queue of one: 1, 2 and 3 pass through it; 0, used, moves to the main one.
  EXPECT_THAT(evicted("s3fifo:small=0.34", 3, {0, 0, 1, 2, 3, 4, 0}), ElementsAre(1, 2));
}
TEST(S3Fifo, TakesWhatComesBackSoonForGood) {
  const std::vector<PageNumber> pages = {0, 1, 2, 3, 0, 4, 5, 6};
  // 0 goes, comes back while it is remembered, and outlives all that came before and after.
  EXPECT_THAT(evicted("s3fifo:small=0.34", 3, pages), ElementsAre(0, 1, 2, 3, 4));
}
TEST(RandomChoice, IsTheSameForASeedAndOtherwiseNot) {
  std::vector<PageNumber> pages;
  for (PageNumber page = 0; page < 60; ++page) pages.push_back(page);
  const auto first = evicted("random", 16, pages);
  EXPECT_EQ(evicted("random:seed=1", 16, pages), first);
  EXPECT_NE(evicted("random:seed=2", 16, pages), first);
}

struct Categorized {
  uint64_t step;
  PageNumber page;
  uint32_t category;
};
std::vector<PageNumber> evicted(const std::string& name, uint64_t budget_pages,
                                const std::vector<Categorized>& categorized) {
  std::vector<Access> accesses;
  for (const Categorized& each : categorized) {
    Access access = {accesses.size(), each.step, each.page};
    access.category = each.category;
    accesses.push_back(access);
  }
  return evicted_of(name, budget_pages, accesses);
}
TEST(WorkloadAware, EvictsWhatItsCategorySeldomWaitsSoLongFor) {
  // Pages of category 0 come back after 2 steps, those of 1 after 20; at step 30, 0 is 8 steps old
  // and 1 is 10.
  const std::vector<Categorized> accesses = {{0, 0, 0},  {0, 1, 1},  {2, 0, 0},
                                             {20, 1, 1}, {22, 2, 0}, {30, 3, 0}};
  EXPECT_THAT(evicted("workload_aware", 3, accesses), ElementsAre(0));
  const std::vector<Categorized> later = {{0, 0, 0},  {0, 1, 1},  {2, 0, 0}, {20, 1, 1},
                                          {22, 0, 0}, {22, 2, 0}, {30, 3, 0}};
  // Now the mean gap of category 0 is 2.18 steps: e^(−8 / 2.18) < e^(−10 / 20), of 2 that came
  // last.
  EXPECT_THAT(evicted("workload_aware", 3, later), ElementsAre(2));
  EXPECT_THAT(evicted("lru", 3, later), ElementsAre(1));
}
TEST(WorkloadAware, EvictsOfAStepWhatStandsLastInIt) {
  const std::vector<Categorized> accesses = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {1, 3, 0}};
  EXPECT_THAT(evicted("workload_aware", 3, accesses), ElementsAre(2));
}
TEST(WorkloadAware, ExpectsNothingBeyondALife) {
  // Both are 2 steps old, in categories that wait for 2 steps and for 20.
  const std::vector<Categorized> accesses = {{0, 0, 0},  {0, 1, 1},  {2, 0, 0},
                                             {20, 1, 1}, {20, 0, 0}, {22, 2, 0}};
  EXPECT_THAT(evicted("workload_aware:life=1000", 2, accesses), ElementsAre(0));
  EXPECT_THAT(evicted("workload_aware:life=1", 2, accesses), ElementsAre(1));
}
TEST(WorkloadAware, TellsSoManyCategoriesApartAndTakesAllOthersForOne) {
  // Pages of one category come back after 2 steps or 20, those of the other after 20, as above.
  const auto last_gone = [](uint32_t categories_before) {
    std::vector<Categorized> accesses;
    for (uint32_t i = 0; i < categories_before; ++i) accesses.push_back({0, 100 + i, 100 + i});
    accesses.insert(
        accesses.end(),
        {{1, 0, 0}, {1, 1, 1}, {3, 0, 0}, {21, 1, 1}, {23, 0, 0}, {23, 2, 0}, {31, 3, 0}});
    return evicted("workload_aware", 3, accesses).back();
  };
  EXPECT_EQ(last_gone(0), 2U);
  EXPECT_EQ(last_gone(1'022), 2U);
  EXPECT_EQ(last_gone(1'023), 1U);  // the oldest of one category
}
TEST(WorkloadAware, ForgetsGapsOfLongAgo) {
  // Category 0 used to wait for 40 steps, and lately for 1.
  std::vector<Categorized> accesses = {{0, 0, 0}, {0, 1, 1}, {40, 0, 0}, {40, 1, 1}};
  for (uint64_t step = 41; step < 60; ++step) accesses.push_back({step, 0, 0});
  accesses.insert(accesses.end(), {{60, 1, 1}, {62, 0, 0}, {75, 2, 1}});
  EXPECT_THAT(evicted("workload_aware:recent=2", 2, accesses), ElementsAre(0));
  EXPECT_THAT(evicted("workload_aware:recent=1000", 2, accesses), ElementsAre(1));
}

// Pages accessed once that do not come back, among them 0 and 1 that do, after three accesses.
std::vector<PageNumber> loop_among_passers_by(size_t accesses) {
  std::vector<PageNumber> pages;
  for (PageNumber i = 0; i < accesses; ++i) pages.push_back(i % 2 == 0 ? i / 2 % 2 : 100 + i);
  return pages;
}
TEST(ReuseRate, KeepsWhatComesBackAsOthersLikeItDid) {
  const auto pages = loop_among_passers_by(200);
  const auto gone = evicted("reuse_rate", 3, pages);
  // 0 and 1 come every fourth access, so the oldest of three is often one of them.
  EXPECT_THAT(evicted("lru", 3, pages), testing::Contains(0));
  EXPECT_THAT(std::vector(gone.begin() + 20, gone.end()), testing::Each(testing::Ge(100)));
}
TEST(ReuseRate, InALoopKeepsWhatIsThere) {
  std::vector<PageNumber> pages;
  for (PageNumber i = 0; i < 4'000; ++i) pages.push_back(i % 40);
  const auto hits = [&](const std::string& name) {
    return pages.size() - 20 - evicted(name, 20, pages).size();
  };
  EXPECT_EQ(hits("lru"), 0U);
  EXPECT_GT(hits("reuse_rate"), 1'000U);  // 1,900 with foresight
}
TEST(ReuseRate, LearnsFromPagesThatHadGone) {
  // With one place all goes before it comes back; and yet it is known then that who was accessed
  // twice comes a third time, where two places are.
  std::vector<PageNumber> pages = loop_among_passers_by(200);
  const auto learned = reuse_rate().make(Setting(), std::vector<double>{3, 1e5});
  uint64_t number = 0;
  for (const PageNumber page : pages) learned->on_access({number, number, page}), ++number;
  // 50 was accessed twice, 51 later, and once.
  for (const PageNumber page : {50U, 50U, 51U}) {
    learned->on_access({number, number, page});
    ++number;
  }
  for (const PageNumber page : {50U, 51U}) learned->on_insert(page, number);
  EXPECT_EQ(learned->victim(number), 51U);
}
TEST(ReuseRate, ForgetsByHalves) {
  // All pages used to come a second time at once, and an eighth of them a third time; lately none
  // comes a second time.
  std::vector<PageNumber> pages;
  for (PageNumber i = 0; i < 400; ++i) {
    pages.insert(pages.end(), i % 8 == 0 ? 3 : 2, 1'000 + i);
  }
  for (PageNumber i = 0; i < 300; ++i) pages.push_back(5'000 + i);
  pages.insert(pages.end(), {1, 1, 2});
  const auto victim_with = [&](double half_life, uint64_t first, uint64_t stride) {
    const auto policy = reuse_rate().make(Setting(), std::vector<double>{3, half_life});
    uint64_t number = first;
    for (const PageNumber page : pages) policy->on_access({number, number, page}), number += stride;
    for (const PageNumber page : {1U, 2U}) policy->on_insert(page, number);
    return policy->victim(number);
  };
  EXPECT_EQ(victim_with(1e9, 0, 1), 1U);
  EXPECT_EQ(victim_with(200, 0, 1), 2U);
  // Of two heads that take turns each hears of every second access, and one may begin late.
  for (const uint64_t first : {0, 1, 20'000'000, 20'000'001}) {
    EXPECT_EQ(victim_with(1e12, first, 2), 1U) << first;
    EXPECT_EQ(victim_with(400, first, 2), 2U) << first;
  }
}
TEST(ReuseRate, ForgetsForEveryHeadThatHasAShare) {
  // Two heads that take turns: their pages come in a loop for long, and then at random.
  Random random(3);
  std::vector<Access> accesses;
  for (PageNumber i = 0; i < 9'000; ++i) {
    for (const uint32_t head : {0, 1}) {
      const auto drawn = static_cast<PageNumber>(random.below(60));
      const PageNumber own = i < 5'000 ? i % 60 : drawn;
      Access access = {accesses.size(), accesses.size(), 10'000 * head + own};
      access.head = head;
      accesses.push_back(access);
    }
  }
  const auto gone_of = [&](const std::string& name, uint32_t head) {
    auto gone = evicted_of(name, 40, accesses);
    std::erase_if(gone, [&](PageNumber page) { return page / 10'000 != head; });
    return gone;
  };
  for (const uint32_t head : {0, 1}) {
    EXPECT_NE(gone_of("even/reuse_rate:half_life=100", head),
              gone_of("even/reuse_rate:half_life=1e12", head))
        << head;
  }
}

// Groups of four pages, any of 64, each demanded in two steps running: half of the accesses hit
// where what has just been demanded stays.
TEST(MilestonePages, KeepsWhatHasJustBeenDemanded) {
  Random random(1);
  std::vector<Access> accesses;
  for (uint64_t step = 0; step < 4'000; step += 2) {
    const auto group = static_cast<PageNumber>(random.below(64));
    for (PageNumber i = 0; i < 8; ++i) {
      accesses.push_back({accesses.size(), step + i / 4, 4 * group + i % 4});
    }
  }
  const auto hits = [&](const std::string& name) {
    return accesses.size() - 8 - evicted_of(name, 8, accesses).size();
  };
  EXPECT_GE(hits("lru"), accesses.size() / 2);
  EXPECT_GE(20 * hits("milestone"), 19 * hits("lru"));
}

// A page that comes without an access, as into a tier below, is worth as much as its age says.
TEST(MilestonePages, WhatComesWithoutAnAccessIsWorthNoMoreThanWhatComesBackOften) {
  const auto policy = choose_policy("milestone:within=4")->make({});
  constexpr PageNumber kOften = 0;
  constexpr PageNumber kOnce = 1;
  uint64_t number = 0;
  policy->on_access({number++, 0, kOften});
  policy->on_insert(kOften, 0);
  for (uint64_t step = 0; step < 3'000; ++step) {
    policy->on_access({number++, step, step % 2 == 0 ? kOften : static_cast<PageNumber>(2 + step)});
  }
  policy->on_access({number++, 3'000, kOnce});
  for (uint64_t step = 3'001; step < 3'066; ++step) {
    policy->on_access({number++, step, step % 2 == 0 ? kOften : static_cast<PageNumber>(2 + step)});
  }
  policy->on_insert(kOnce, 3'065);
  EXPECT_EQ(policy->victim(3'065), kOnce);
}

// Pages of three kinds: hot ones, ones that come in loops, and ones that come once.
std::vector<PageNumber> drawn(uint64_t seed, size_t accesses) {
  Random random(seed);
  std::vector<PageNumber> pages;
  PageNumber fresh = 1'000;
  while (pages.size() < accesses) {
    const uint64_t kind = random.below(4);
    if (kind < 2) pages.push_back(static_cast<PageNumber>(random.below(6)));
    if (kind == 2) pages.push_back(static_cast<PageNumber>(100 + pages.size() % 23));
    if (kind == 3) pages.push_back(fresh++);
  }
  return pages;
}

// Each alone, and some that have a share of the budget.
std::vector<std::string> all_names() {
  std::vector<std::string> names = {"even/lru",        "reasonalloc/lru",    "reasonalloc/s3fifo",
                                    "reasonalloc/h2o", "reasonalloc/belady", "even/belady"};
  for (const PolicyInfo& info : policies()) names.emplace_back(info.name);
  return names;
}

// Pages of one size: without sizes, too, each is a policy of its own. A thousand steps between two
// accesses, for some weigh a step against an access.
TEST(Policies, NoTwoDecideAlikeOnEveryTrace) {
  std::map<std::vector<PageNumber>, std::string> decisions;
  for (const std::string& name : all_names()) {
    std::vector<PageNumber> all;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      for (const uint64_t gap_steps : {1, 1'000}) {
        const auto accesses = accesses_to(drawn(seed, 3'000), gap_steps);
        const auto gone = evicted_of(name, 12, accesses, nullptr);
        all.insert(all.end(), gone.begin(), gone.end());
      }
    }
    const auto [same, is_new] = decisions.emplace(std::move(all), name);
    EXPECT_TRUE(is_new) << name << " decides as " << same->second;
  }
}

TEST(Policies, OnlyThoseThatSaySoSeeTheFuture) {
  constexpr size_t kPresent = 500;
  const std::vector<PageNumber> pages = drawn(1, 1'000);
  std::vector<PageNumber> other(pages.begin(), pages.begin() + kPresent);
  const auto otherwise = drawn(2, pages.size() - kPresent);
  other.insert(other.end(), otherwise.begin(), otherwise.end());
  const std::vector<PageNumber> present(pages.begin(), pages.begin() + kPresent);
  for (const std::string& name : all_names()) {
    const size_t decided = evicted(name, 12, present).size();
    auto one = evicted(name, 12, pages);
    auto another = evicted(name, 12, other);
    one.resize(decided);
    another.resize(decided);
    EXPECT_EQ(one != another, choose_policy(name)->info->sees_future) << name;
  }
}

}  // namespace
}  // namespace farpage::prefetch
