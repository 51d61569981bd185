#include "prefetch/prefetchers/prefetchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/registry/registry.h"
#include "tests/prefetch/known_future.h"

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Steps = std::vector<std::vector<PageNumber>>;

// The pages named at the end of each step, at most so many.
Steps named(const std::string& name, const Steps& steps, size_t most = 4) {
  std::vector<PageNumber> pages;
  std::vector<uint64_t> begins;
  for (const auto& step : steps) {
    begins.push_back(pages.size());
    pages.insert(pages.end(), step.begin(), step.end());
  }
  const KnownFuture future(pages, begins);
  const auto chosen = choose_prefetcher(name);
  EXPECT_TRUE(chosen.has_value()) << name;
  Setting setting;
  if (chosen->info->sees_future) setting.future = &future;
  const auto prefetcher = chosen->make(setting);
  Steps all;
  uint64_t number = 0;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    for (const PageNumber page : steps[step]) {
      Access access = {number++, step, page};
      access.mass = 0.5F;
      prefetcher->on_access(access);
    }
    std::vector<PageNumber> some(most);
    some.resize(prefetcher->candidates(some));
    all.push_back(some);
  }
  return all;
}

TEST(None, NamesNothing) {
  EXPECT_THAT(named("none", {{0, 1}, {0}}), ElementsAre(IsEmpty(), IsEmpty()));
}
TEST(Oracle, NamesWhatComesSoonestFirst) {
  EXPECT_THAT(named("oracle", {{0, 1}, {3, 0, 3}, {2}}),
              ElementsAre(ElementsAre(3, 0, 2), ElementsAre(2), IsEmpty()));
  EXPECT_THAT(named("oracle", {{0}, {3, 0, 3, 2}}, 2).front(), ElementsAre(3, 0));
}
TEST(Oracle, NamesNothingThatComesAfterItsSteps) {
  const Steps steps = {{0}, {1, 0}, {2}, {3}};
  EXPECT_THAT(named("oracle:steps=1", steps),
              ElementsAre(ElementsAre(1, 0), ElementsAre(2), ElementsAre(3), IsEmpty()));
  EXPECT_THAT(named("oracle", steps),
              ElementsAre(ElementsAre(1, 0, 2), ElementsAre(2, 3), ElementsAre(3), IsEmpty()));
}
TEST(PreviousSelection, NamesTheLastStepsTheNewestFirst) {
  EXPECT_THAT(named("previous_selection", {{0, 1}, {2, 1, 2}, {5}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 1, 0), ElementsAre(5, 2, 1)));
  EXPECT_THAT(named("previous_selection:steps=1", {{0, 1}, {2}}).back(), ElementsAre(2));
  EXPECT_THAT(named("previous_selection", {{0, 1, 2, 3, 4, 5}}).back(), ElementsAre(0, 1, 2, 3));
}
TEST(PreviousSelection, NamesTheNextLayersFirst) {
  // Two heads in each of three layers; a layer a step, each head a page: 0 and 1, 2 and 3, 4 and 5,
  // and in the next round those and 10.
  const auto chosen = choose_prefetcher("previous_selection");
  Setting setting;
  setting.layout = {3, 2};
  const auto prefetcher = chosen->make(setting);
  uint64_t number = 0;
  const auto step = [&](uint64_t at, const std::vector<PageNumber>& pages) {
    for (const PageNumber page : pages) {
      Access access = {number++, at, page};
      access.head = page == 10 ? 0 : page;
      prefetcher->on_access(access);
    }
    std::vector<PageNumber> some(20);
    some.resize(prefetcher->candidates(some));
    return some;
  };
  step(0, {0, 1});
  step(1, {2, 3});
  EXPECT_THAT(step(2, {4, 5}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(step(3, {1, 10}), ElementsAre(2, 3, 4, 5, 1, 10, 0));
  EXPECT_THAT(step(4, {3}), ElementsAre(4, 5, 1, 10, 3, 0, 2));
}
TEST(Recency, NamesWhatWasUsedLastAndIsNotNearTheNewestFirst) {
  EXPECT_THAT(named("recency", {{0, 1}, {2, 0}, {3}}, 3),
              ElementsAre(ElementsAre(1, 0), ElementsAre(0, 2, 1), ElementsAre(3, 0, 2)));
  EXPECT_THAT(named("recency:pages=2", {{0, 1, 2, 3}}).back(), ElementsAre(3, 2));
  const auto chosen = choose_prefetcher("recency");
  const auto prefetcher = chosen->make({});
  for (PageNumber page = 0; page < 4; ++page) {
    prefetcher->on_access({page, 0, page});
    prefetcher->on_insert(page);
  }
  std::vector<PageNumber> some(4);
  EXPECT_EQ(prefetcher->candidates(some), 0U);
  prefetcher->on_evict(1);
  prefetcher->on_evict(2);
  some.resize(prefetcher->candidates(some));
  EXPECT_THAT(some, ElementsAre(2, 1));
}
TEST(HotPages, NamesWhatAllStepsLookedAtOnceTheyAgree) {
  Steps steps(70, {4, 9});
  const auto all = named("hot_spots:share=0.2", steps);
  EXPECT_THAT(all[63], IsEmpty());  // 64 have ended when the next begins
  EXPECT_THAT(all[64], ElementsAre(4, 9));
  EXPECT_THAT(choose_prefetcher("hot_spots")->info->what, testing::HasSubstr("after 64 of them"));
  for (PageNumber i = 0; i < 70; ++i) steps[i] = {i % 10, (i + 1) % 10};
  EXPECT_THAT(named("hot_spots:share=0.2", steps).back(), IsEmpty());
  EXPECT_THAT(named("hot_spots:share=0.2:overlap=0.05", steps).back(), testing::SizeIs(2));
}
TEST(Markov, NamesWhatFollowedTheStepBeforeTheLikeliestFirst) {
  // 5 followed three times and then not, 6 and 7 twice.
  EXPECT_THAT(named("markov", {{1}, {5, 6}, {1}, {6, 5}, {1}, {5, 7}, {1}, {7}, {1}}).back(),
              ElementsAre(7));
  EXPECT_THAT(named("markov", {{1}, {5}, {1}, {5, 6}, {1}, {6, 5}, {1}}).back(), ElementsAre(5, 6));
  EXPECT_THAT(named("markov:least=3", {{1}, {5}, {1}, {5, 6}, {1}, {6, 5}, {1}}).back(),
              ElementsAre(5));
}
TEST(Markov, NamesNothingThatFollowedOnceOrCameInTheSameStep) {
  EXPECT_THAT(named("markov", {{1}, {5}, {1}}).back(), IsEmpty());
  EXPECT_THAT(named("markov", {{1, 1}, {5, 5}, {1}}).back(), IsEmpty());
  EXPECT_THAT(named("markov", {{1, 5}, {2}, {1, 5}, {3}, {1, 5}}).back(), IsEmpty());
  EXPECT_THAT(named("markov", {}), IsEmpty());
}
TEST(Markov, ForgetsByHalvesWhatFollowsNoMore) {
  Steps steps;
  for (size_t i = 0; i < 5; ++i) steps.insert(steps.end(), {{1}, {5}});
  steps.insert(steps.end(), {{1}, {6}, {1}});
  EXPECT_THAT(named("markov", steps).back(), ElementsAre(5));  // 2.5
  steps.insert(steps.end(), {{9}, {1}});
  EXPECT_THAT(named("markov", steps).back(), IsEmpty());
}
TEST(Markov, EachPageOfTheStepHasItsSay) {
  // 5 follows 1 three times, and 6 follows each of 2 and 3 twice.
  const Steps steps = {{1}, {5}, {2}, {6}, {3}, {6}, {1},      {5},
                       {2}, {6}, {3}, {6}, {1}, {5}, {1, 2, 3}};
  EXPECT_THAT(named("markov", steps).back(), ElementsAre(6, 5));
  EXPECT_THAT(named("markov", steps, 1).back(), ElementsAre(6));
}
TEST(Markov, TogetherThePagesOfAStepKnowAllOfALargeOne) {
  std::vector<PageNumber> one(40), other(40);
  std::iota(one.begin(), one.end(), 0);
  std::iota(other.begin(), other.end(), 100);
  const Steps steps = {one, other, one, other, one};
  EXPECT_THAT(named("markov", steps, 100).back(), testing::UnorderedElementsAreArray(other));
  // Of one page so many are remembered.
  EXPECT_THAT(named("markov", {{1}, other, {1}, other, {1}}, 100).back(), testing::SizeIs(8));
}
TEST(Majority, GoesOnByTheStrideOfMost) {
  EXPECT_THAT(named("majority", {{10, 12, 14, 3, 5, 7}}).back(), ElementsAre(9, 11, 13, 15));
  // The newest quarter of four strides is one alone.
  EXPECT_THAT(named("majority:window=4", {{0, 1, 2, 3, 11}}).back(), ElementsAre(19, 27, 35, 43));
  EXPECT_THAT(named("majority:window=8", {{0, 8, 9, 17, 18, 19, 20, 21, 22}}).back(),
              ElementsAre(23, 24, 25, 26));
}
TEST(Majority, LooksAmongMoreWhereTheNewestDisagree) {
  // The last two strides are 5 and −4, the last four 5, −4, 2 and 2, of all eight six are 2.
  EXPECT_THAT(named("majority:window=8", {{0, 2, 4, 6, 8, 10, 12, 8, 13}}).back(),
              ElementsAre(15, 17, 19, 21));
}
TEST(Majority, NamesNothingWithoutOneOrBelowTheFirstPage) {
  EXPECT_THAT(named("majority", {{0}, {5, 1, 9, 2, 30}}).back(), IsEmpty());
  EXPECT_THAT(named("majority", {{}}).back(), IsEmpty());
  EXPECT_THAT(named("majority", {{9, 6, 3}}).back(), ElementsAre(0));
}
TEST(RandomSeen, NamesPagesThatWereSeenAndTheSameForASeed) {
  Steps steps(50, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto first = named("random", steps);
  EXPECT_EQ(named("random:seed=1", steps), first);
  EXPECT_NE(named("random:seed=2", steps), first);
  std::set<PageNumber> all;
  for (const auto& each : first) {
    all.insert(each.begin(), each.end());
    EXPECT_EQ(std::set<PageNumber>(each.begin(), each.end()).size(), each.size());
  }
  EXPECT_EQ(all.size(), 9u);
}

// Named after each step, of which the pages are forgotten that are told, before it.
struct Told {
  std::vector<PageNumber> forgotten;
  std::vector<PageNumber> pages;
};
std::vector<PageNumber> named_at_last(const std::string& name, const std::vector<Told>& steps) {
  const auto prefetcher = choose_prefetcher(name)->make({});
  std::vector<PageNumber> some;
  uint64_t number = 0;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    for (const PageNumber page : steps[step].forgotten) prefetcher->on_forget(page);
    for (const PageNumber page : steps[step].pages) {
      Access access = {number++, step, page};
      access.mass = 0.5F;
      prefetcher->on_access(access);
    }
    some.resize(4);
    some.resize(prefetcher->candidates(some));
  }
  return some;
}
TEST(Prefetchers, ANumberThatIsUsedAgainIsAnotherPage) {
  // Each names 5 for what it was.
  const Told none;
  EXPECT_THAT(named_at_last("previous_selection", {{{}, {5, 6}}, {{}, {7}}}), ElementsAre(7, 5, 6));
  EXPECT_THAT(named_at_last("previous_selection", {{{}, {5, 6}}, {{5}, {7}}}), ElementsAre(7, 6));
  EXPECT_THAT(named_at_last("recency", {{{}, {5, 6}}, {{5}, {7}}}), ElementsAre(7, 6));
  EXPECT_THAT(named_at_last("majority", {{{}, {2, 3, 4, 5}}, none}), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(named_at_last("majority", {{{}, {2, 3, 4, 5}}, {{5}, {}}}), IsEmpty());
  const std::vector<Told> followed = {{{}, {1}}, {{}, {5, 6}}, {{}, {1}}, {{}, {5, 6}}};
  const auto markov = [&](std::vector<Told> more) {
    more.insert(more.begin(), followed.begin(), followed.end());
    return named_at_last("markov", more);
  };
  EXPECT_THAT(markov({{{}, {1}}}), ElementsAre(5, 6));
  EXPECT_THAT(markov({{{5}, {1}}}), ElementsAre(6));        // what follows
  EXPECT_THAT(markov({{{}, {1}}, {{1}, {1}}}), IsEmpty());  // what is followed
  EXPECT_THAT(markov({{{}, {1}}, {{1}, {}}}), IsEmpty());   // what the step demanded
}
TEST(Recency, ANumberThatIsUsedAgainIsNotNear) {
  const auto prefetcher = choose_prefetcher("recency")->make({});
  prefetcher->on_access({0, 0, 5});
  prefetcher->on_insert(5);
  prefetcher->on_forget(5);
  prefetcher->on_access({1, 1, 5});
  std::vector<PageNumber> some(4);
  EXPECT_EQ(prefetcher->candidates(some), 1U);
}
TEST(Markov, WhatFollowedANumberBeforeItWasUsedAgainCountsForNothing) {
  // 5 followed once as each of two pages, and 1 was another page the second time.
  EXPECT_THAT(named_at_last("markov", {{{}, {1}}, {{}, {5}}, {{}, {1}}, {{5}, {5}}, {{}, {1}}}),
              IsEmpty());
  EXPECT_THAT(named_at_last("markov", {{{}, {1}}, {{}, {5}}, {{1}, {1}}, {{}, {5}}, {{}, {1}}}),
              IsEmpty());
  EXPECT_THAT(named_at_last("markov", {{{}, {1}}, {{}, {5}}, {{}, {1}}, {{1}, {5}}, {{}, {1}}}),
              IsEmpty());
}
TEST(Markov, ANumberThatIsUsedAgainIsLearnedOfAnew) {
  // The following page has another page's number, and did before.
  EXPECT_THAT(named_at_last("markov", {{{}, {1}},
                                       {{}, {5}},
                                       {{}, {1}},
                                       {{}, {5}},
                                       {{}, {1}},
                                       {{5}, {5}},
                                       {{}, {1}},
                                       {{}, {5}},
                                       {{}, {1}}}),
              ElementsAre(5));
  // It had it in the same step.
  for (const PageNumber reused : {1U, 5U}) {
    const auto prefetcher = choose_prefetcher("markov")->make({});
    std::vector<PageNumber> some(4);
    for (uint64_t step = 0; step < 5; ++step) {
      const PageNumber page = step % 2 == 0 ? 1 : 5;
      prefetcher->on_access({step, step, page});
      if (step < 2 && page == reused) {
        prefetcher->on_forget(page);
        prefetcher->on_access({step, step, page});
      }
    }
    some.resize(prefetcher->candidates(some));
    EXPECT_THAT(some, ElementsAre(5)) << reused;
  }
}
TEST(HotPages, ANumberThatIsUsedAgainIsNotHot) {
  std::vector<Told> steps(65, {{}, {4, 9}});
  EXPECT_THAT(named_at_last("hot_spots:share=0.2", steps), ElementsAre(4, 9));
  steps.push_back({{4}, {9}});
  EXPECT_THAT(named_at_last("hot_spots:share=0.2", steps), ElementsAre(9));
}

// A loop of pages, and others between; then pages one after the other.
Steps drawn(uint64_t seed, size_t steps) {
  Random random(seed);
  Steps all;
  for (PageNumber i = 0; i < steps; ++i) {
    all.push_back({i % 17, static_cast<PageNumber>(20 + random.below(6)), (i + 1) % 17});
  }
  for (PageNumber i = 0; i < steps / 4; ++i) all.push_back({100 + i});
  return all;
}

// With parameters with which it names something of them: in the loop steps agree too little
// otherwise, and nothing is likely enough.
std::string naming(const PrefetcherInfo& info) {
  std::string name(info.name);
  if (name == "hot_spots") name += ":overlap=0";
  if (name == "learned") name += ":least=0";
  return name;
}

TEST(Prefetchers, NoTwoNameTheSameOnEveryTrace) {
  std::map<Steps, std::string_view> decisions;
  for (const PrefetcherInfo& info : prefetchers()) {
    const auto [same, is_new] = decisions.emplace(named(naming(info), drawn(1, 200)), info.name);
    EXPECT_TRUE(is_new) << info.name << " names what " << same->second << " does";
  }
}
TEST(Prefetchers, OnlyThoseThatSaySoSeeTheFuture) {
  constexpr size_t kPresent = 100;
  Steps steps;
  for (PageNumber i = 0; i < 20; ++i) steps.push_back({200 + i});  // one after the other
  const Steps then = drawn(1, 200);
  steps.insert(steps.end(), then.begin(), then.end());
  Steps other(steps.begin(), steps.begin() + kPresent);
  const Steps otherwise = drawn(2, kPresent);
  other.insert(other.end(), otherwise.begin(), otherwise.end());
  for (const PrefetcherInfo& info : prefetchers()) {
    const std::string name = naming(info);
    auto one = named(name, steps);
    auto another = named(name, other);
    one.resize(kPresent);
    another.resize(kPresent);
    const auto names = [](const auto& pages) { return !pages.empty(); };
    EXPECT_EQ(std::ranges::any_of(one, names), name != "none") << name;
    EXPECT_EQ(one != another, info.sees_future) << name;
  }
}

}  // namespace
}  // namespace farpage::prefetch
