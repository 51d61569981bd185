#include "lab/vtime/timed_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/page_list.h"
#include "prefetch/policies/policies.h"
#include "prefetch/registry/registry.h"
#include "replay/traces/trace_generator.h"

namespace farpage::vtime {
namespace {

using prefetch::PageNumber;
using testing::HasSubstr;

using Steps = std::vector<std::vector<PageNumber>>;

// `stride`: between the numbers of steps.
paging::AccessTrace trace_of(const Steps& steps, uint64_t stride = 1) {
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    for (const PageNumber page : steps[step]) {
      accesses.push_back({accesses.size(), stride * step, page});
    }
  }
  return paging::trace_of_accesses("test", true, std::move(accesses));
}

// Names after each step what it was told.
class Told final : public prefetch::Prefetcher {
 public:
  explicit Told(Steps steps) : steps_(std::move(steps)) {}

  void on_access(const prefetch::Access& access) override { accessed_ = access.page; }
  void on_miss(PageNumber page) override {
    EXPECT_EQ(page, accessed_);
    misses.push_back(page);
  }
  size_t candidates(std::span<PageNumber> pages) override {
    if (asked_ == steps_.size()) return 0;
    const auto& named = steps_[asked_++];
    std::ranges::copy(named, pages.begin());
    return named.size();
  }

  std::vector<PageNumber> misses;

 private:
  const Steps steps_;
  size_t asked_ = 0;
  PageNumber accessed_ = 0;
};

// A page takes 1 µs on its way and arrives 100 ns later.
TimedOptions options_with(uint64_t compute_ns) {
  TimedOptions options;
  options.page_bytes = 1'000;
  options.compute_ns = compute_ns;
  options.tiers = {{.latency_ns = 100, .bytes_per_s = 1'000'000'000, .capacity_pages = 0}};
  return options;
}

TimedResult replay_lru(const Steps& steps, uint64_t budget_pages, const TimedOptions& options,
                       const Steps& told = {}) {
  const auto policy = prefetch::lru().make({}, {});
  Told prefetcher(told);
  const auto result = replay(trace_of(steps), budget_pages, options, *policy, prefetcher);
  EXPECT_TRUE(result.has_value());
  return *result;
}

TEST(TimedReplay, AStepWaitsForWhatIsNotThereAndNotForWhatIsNew) {
  const TimedResult result = replay_lru({{0}, {1}, {0}, {0}}, 1, options_with(5'000));
  EXPECT_EQ(result.steps, 4u);
  EXPECT_EQ(result.paging.hits, 1u);
  EXPECT_EQ(result.paging.first_accesses, 2u);
  EXPECT_EQ(result.demand_fetches, 1u);
  EXPECT_EQ(result.stall_ns, 1'100u);
  EXPECT_EQ(result.stalled_steps, 1u);
  EXPECT_EQ(result.end_ns, 4 * 5'000u + 1'100);
  EXPECT_EQ(result.written_pages, 2u);  // 0, and then 1
  EXPECT_EQ(result.stall_p50_ns, 0);
  EXPECT_NEAR(result.stall_p99_ns, 1'100, 12);
  EXPECT_DOUBLE_EQ(result.steps_per_s(), 4 / 21.1e-6);
}
TEST(TimedReplay, DemandsOfAStepFollowEachOther) {
  const TimedResult result = replay_lru({{0, 1}, {2, 3}, {0, 1}}, 2, options_with(5'000));
  EXPECT_EQ(result.stall_ns, 2'100u);
  EXPECT_EQ(result.waited_ns, 1'000u);
}
TEST(TimedReplay, WhatIsPrefetchedDuringComputeCostsNoStall) {
  const TimedResult result =
      replay_lru({{0}, {1}, {2}, {0}}, 2, options_with(5'000), {{}, {}, {0}});
  EXPECT_EQ(result.stall_ns, 0u);
  EXPECT_EQ(result.paging.hits, 1u);
  EXPECT_EQ(result.prefetch.begun, 1u);
  EXPECT_EQ(result.prefetch.useful(), 1u);
  EXPECT_EQ(result.prefetch.timely, 1u);
  EXPECT_EQ(result.demand_fetches, 0u);
  EXPECT_DOUBLE_EQ(result.accuracy(), 1);
  EXPECT_DOUBLE_EQ(result.coverage(), 1);
  EXPECT_DOUBLE_EQ(result.timeliness(), 1);
}
TEST(TimedReplay, WhatIsUnderWayIsWaitedForAndNotFetchedAgain) {
  // Asked for at 1'000, wanted at 1'500, there at 2'100.
  const TimedResult result = replay_lru({{0}, {1}, {2}, {0}}, 2, options_with(500), {{}, {}, {0}});
  EXPECT_EQ(result.stall_ns, 600u);
  EXPECT_EQ(result.paging.hits, 0u);
  EXPECT_EQ(result.demand_fetches, 0u);
  EXPECT_EQ(result.fetched_pages, 1u);
  EXPECT_EQ(result.prefetch.useful(), 1u);
  EXPECT_EQ(result.prefetch.timely, 0u);
}
TEST(TimedReplay, ThePrefetcherHearsOfEachPageThatIsWaitedFor) {
  // 0 has come ahead of its demand, 1 is under way, 2 is fetched, 3 is new, and then near.
  const Steps steps = {{0}, {1}, {2}, {4}, {5}, {6}, {0}, {1}, {2}, {3}, {3}};
  const auto policy = prefetch::lru().make({}, {});
  Told prefetcher({{}, {}, {}, {0}, {}, {}, {1}});
  const auto result = replay(trace_of(steps), 3, options_with(600), *policy, prefetcher);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->prefetch.timely, 1u);
  EXPECT_EQ(result->prefetch.late, 1u);
  EXPECT_EQ(prefetcher.misses, (std::vector<PageNumber>{1, 2}));
}
// Of 12 pages the first six are near no more when some of them are named at 1'000, before a step
// that demands one of them at 1'500.
TimedResult demand_beside(const std::vector<PageNumber>& named, PageNumber demanded,
                          uint32_t most_under_way) {
  TimedOptions options = options_with(500);
  options.scheduler.most_under_way = most_under_way;
  const Steps steps = {{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}, {11}, {demanded}};
  return replay_lru(steps, 6, options, {{}, {}, named, {}});
}
TEST(TimedReplay, ADemandGoesBeforeWhatHasNotBegun) {
  // 0 is on its way from 1'000 to 2'000; 1 and 2 wait, and are given up.
  const TimedResult one = demand_beside({0, 1, 2}, 3, 1);
  EXPECT_EQ(one.stall_ns, 3'100u - 1'500);
  EXPECT_EQ(one.waited_ns, 500u);
  EXPECT_EQ(one.prefetch.begun, 1u);
  EXPECT_EQ(one.prefetch.cancelled, 2u);
  EXPECT_EQ(one.fetched_pages, 2u);
  EXPECT_EQ(one.demand_p50_ns, one.demand_p99_ns);
  EXPECT_NEAR(one.demand_p99_ns, 1'600, 16);
  // All have begun.
  const TimedResult all = demand_beside({0, 1, 2}, 3, 4);
  EXPECT_EQ(all.stall_ns, 5'100u - 1'500);
  EXPECT_EQ(all.prefetch.begun, 3u);
}
TEST(TimedReplay, WhatWaitsBecomesADemandWhenItIsWanted) {
  // 1 waits behind 0, and goes at 2'000.
  const TimedResult result = demand_beside({0, 1}, 1, 1);
  EXPECT_EQ(result.stall_ns, 1'600u);
  EXPECT_EQ(result.prefetch.begun, 1u);
  EXPECT_EQ(result.prefetch.overtaken, 1u);
  EXPECT_EQ(result.demand_fetches, 1u);
  EXPECT_EQ(result.prefetch.useful(), 0u);
}
TEST(TimedReplay, WhatGoesUnusedWasOfNoUse) {
  const TimedResult result = replay_lru({{0}, {1}, {2}, {0}}, 1, options_with(5'000), {{}, {0}});
  EXPECT_EQ(result.prefetch.begun, 1u);
  EXPECT_EQ(result.prefetch.useful(), 0u);
  EXPECT_EQ(result.demand_fetches, 1u);
  EXPECT_DOUBLE_EQ(result.accuracy(), 0);
  EXPECT_DOUBLE_EQ(result.coverage(), 0);
}
TEST(TimedReplay, WhatIsUsedTooLateWasOfNoUse) {
  const auto after = [](size_t steps) {
    Steps all = {{0}, {1}, {2}};
    all.insert(all.end(), steps - 1, {2});
    all.push_back({0});
    return replay_lru(all, 2, options_with(5'000), {{}, {}, {0}});
  };
  EXPECT_EQ(after(10).prefetch.useful(), 1u);
  EXPECT_EQ(after(11).prefetch.useful(), 0u);
  EXPECT_EQ(after(11).paging.hits, 11u);
}
TEST(TimedReplay, WhatIsNearOrUnderWayOrWasNeverMadeIsNotFetched) {
  const TimedResult result =
      replay_lru({{0}, {1}, {2}, {3}}, 3, options_with(5'000), {{0, 7, 3}, {0, 1, 9'999}, {3}});
  EXPECT_EQ(result.fetched_pages, 0u);
}
// Page 0 comes in the last step but one, when the memory has 1, which was used longest ago, and 2.
TEST(TimedReplay, WhatTheStepDemandsDoesNotGoForAPrefetch) {
  const TimedResult demanded =
      replay_lru({{0}, {1}, {2}, {1}, {1, 0}}, 2, options_with(5'000), {{}, {}, {0}});
  EXPECT_EQ(demanded.prefetch.begun, 1u);
  EXPECT_EQ(demanded.paging.hits, 3u);
  EXPECT_EQ(demanded.written_pages, 2u);  // 0, when 2 was made, and 2
  const TimedResult idle =
      replay_lru({{0}, {1}, {2}, {2}, {0}}, 2, options_with(5'000), {{}, {}, {0}});
  EXPECT_EQ(idle.paging.hits, 2u);
  EXPECT_EQ(idle.written_pages, 2u);
}
TEST(TimedReplay, WhatHasComeIsThereForItsDemandWhateverElseIsDemanded) {
  const TimedResult result =
      replay_lru({{0}, {1}, {2}, {1, 0}}, 2, options_with(5'000), {{}, {}, {0}});
  EXPECT_EQ(result.paging.hits, 2u);
  EXPECT_EQ(result.prefetch.timely, 1u);
  EXPECT_EQ(result.stall_ns, 0u);
  EXPECT_EQ(result.demand_fetches, 0u);
}
TEST(TimedReplay, WhatIsNamedBeforeDoesNotGoForWhatIsNamedAfter) {
  const auto hits = [](const std::vector<PageNumber>& named, PageNumber last) {
    const Steps steps = {{0}, {1}, {2}, {2}, {last}};
    return replay_lru(steps, 2, options_with(5'000), {{}, {}, named}).paging.hits;
  };
  EXPECT_EQ(hits({1, 0}, 1), 2u);
  EXPECT_EQ(hits({1, 0}, 0), 1u);
  EXPECT_EQ(hits({0, 1}, 1), 1u);
  EXPECT_EQ(hits({0, 1}, 0), 2u);
}
TEST(TimedReplay, WhatIsNamedNoMoreTakesNoRoomOfWhatIs) {
  // Before the last step but one only 1 is named, which is near, when 0 arrives.
  TimedOptions options = options_with(500);
  options.tiers[0].latency_ns = 0;
  const Steps steps = {{0}, {1}, {2}, {2}, {2}, {1}};
  const TimedResult result = replay_lru(steps, 2, options, {{}, {}, {0}, {1}});
  EXPECT_EQ(result.prefetch.begun, 1u);
  EXPECT_EQ(result.paging.hits, 3u);
}
TEST(TimedReplay, AtMostHalfOfTheMemoryIsFetchedAhead) {
  const Steps steps = {{0, 1, 2, 3}, {4, 5, 6, 7}, {7}, {7}, {7}};
  const Steps told = {{}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
  EXPECT_EQ(replay_lru(steps, 4, options_with(5'000), told).prefetch.begun, 2u);
  EXPECT_EQ(replay_lru(steps, 5, options_with(5'000), told).prefetch.begun, 3u);
  TimedOptions options = options_with(5'000);
  options.tiers[0].latency_ns = 1'000'000;  // all of them are under way to the end
  EXPECT_EQ(replay_lru(steps, 4, options, told).prefetch.begun, 2u);
}

// Of each step of a loop what comes next is named, and before it, a fifth of the time, what no step
// soon demands.
TEST(TimedReplay, WhatIsOfUseKeepsTheRoomForMore) {
  Steps steps;
  Steps told;
  for (PageNumber i = 0; i < 20'000; ++i) {
    steps.push_back({i % 100});
    told.push_back({(i + 1) % 100});
    if (i % 5 == 0) told.back().insert(told.back().begin(), (i + 50) % 100);
  }
  EXPECT_GT(replay_lru(steps, 40, options_with(5'000), told).prefetch.useful(), 18'500u);
}

// Lets the page go that was accessed longest ago of all, as if it came to stay no matter what.
class DropsTheUnused final : public prefetch::Policy {
 public:
  void on_access(const prefetch::Access& access) override { used_.at(access.page) = ++now_; }
  void on_insert(PageNumber page, uint64_t) override { resident_.push_back(page); }
  void on_evict(PageNumber page, uint64_t) override { std::erase(resident_, page); }
  PageNumber victim(uint64_t) override {
    return *std::ranges::min_element(resident_, {}, [&](PageNumber page) { return used_[page]; });
  }
  void set_aside(PageNumber page) override {
    std::erase(resident_, page);
    aside_.push_back(page);
  }
  void put_back() override {
    resident_.insert(resident_.end(), aside_.begin(), aside_.end());
    aside_.clear();
  }

 private:
  prefetch::PerPage<uint64_t> used_;
  std::vector<PageNumber> resident_;
  std::vector<PageNumber> aside_;
  uint64_t now_ = 0;
};

// Lets the page go that came last, and writes down what went.
class LastInFirstOut final : public prefetch::Policy {
 public:
  void on_access(const prefetch::Access&) override {}
  void on_insert(PageNumber page, uint64_t) override { resident_.push_back(page); }
  void on_evict(PageNumber page, uint64_t) override {
    resident_.remove(page);
    gone.push_back(page);
  }
  PageNumber victim(uint64_t) override { return resident_.back(); }
  void set_aside(PageNumber page) override { resident_.set_aside(page); }
  void put_back() override { resident_.put_back(); }
  bool keeps(PageNumber page) const { return resident_.contains(page); }

  std::vector<PageNumber> gone;

 private:
  prefetch::PageList resident_;
};
TEST(TimedReplay, WhatHasToStayKeepsNothingElseFromComing) {
  // 2 goes for 3. When 2 arrives again the policy would let 3 go, which the step demands: 1 goes.
  LastInFirstOut policy;
  Told prefetcher({{}, {}, {}, {2}});
  const Steps steps = {{0}, {1}, {2}, {3}, {3}, {2, 3}};
  const auto result = replay(trace_of(steps), 3, options_with(5'000), policy, prefetcher);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->prefetch.timely, 1u);
  EXPECT_EQ(result->paging.hits, 3u);
  EXPECT_TRUE(policy.keeps(0) && policy.keeps(2) && policy.keeps(3));
  EXPECT_THAT(policy.gone, testing::ElementsAre(2, 1));
}

TEST(TimedReplay, APolicyThatRanksByUseDoesNotDropWhatWasFetchedAhead) {
  const auto hits_after = [](PageNumber steps) {
    Steps all = {{0}, {1}, {2}};
    for (PageNumber page = 3; page < steps + 2; ++page) all.push_back({page});
    all.push_back({0});
    DropsTheUnused policy;
    Told prefetcher({{}, {}, {0}});
    return replay(trace_of(all), 2, options_with(5'000), policy, prefetcher)->paging.hits;
  };
  EXPECT_EQ(hits_after(1), 1u);
  EXPECT_EQ(hits_after(10), 1u);
  EXPECT_EQ(hits_after(12), 0u);
}
TEST(TimedReplay, WithoutABudgetAllIsFetchedEachTime) {
  const TimedResult result = replay_lru({{0}, {0}, {0, 0}}, 0, options_with(5'000), {{}, {0}});
  EXPECT_EQ(result.paging.hits, 0u);
  EXPECT_EQ(result.demand_fetches, 3u);
}

Steps drawn(uint64_t seed) {
  Random random(seed);
  Steps steps;
  for (PageNumber i = 0; i < 300; ++i) {
    steps.emplace_back();
    for (uint64_t each = random.below(4); each <= 3; ++each) {
      const bool is_hot = random.below(2) == 0;
      const uint64_t page = is_hot ? random.below(8) : 8 + random.below(60);
      steps.back().push_back(static_cast<PageNumber>(page));
    }
  }
  return steps;
}

template <typename Chosen>
std::vector<Chosen> all_of(Result<Chosen> (*choose)(std::string_view),
                           const std::vector<std::string>& names) {
  std::vector<Chosen> all;
  for (const std::string& name : names) all.push_back(*choose(name));
  return all;
}

TEST(TimedReplay, WithoutPrefetchHitsWhatAReplayWithoutTimeDoes) {
  std::vector<std::string> names;
  for (const prefetch::PolicyInfo& info : prefetch::policies()) {
    if (info.needs.empty()) names.emplace_back(info.name);
  }
  ASSERT_GT(names.size(), 10u);
  const auto policies = all_of<prefetch::ChosenPolicy>(prefetch::choose_policy, names);
  const auto none = all_of<prefetch::ChosenPrefetcher>(prefetch::choose_prefetcher, {"none"});
  const std::vector<uint64_t> budgets_pages = {0, 1, 10, 100, 1'000};
  const auto trace = paging::accesses_of(generate_trace({.seed = 1, .requests = 200}));
  const auto timed =
      replay_all(trace, options_with(5'000), {policies, budgets_pages, none}, [](size_t) {});
  const auto untimed = page_all(trace, policies, budgets_pages, [](size_t) {});
  ASSERT_TRUE(timed.has_value() && untimed.has_value());
  ASSERT_EQ(timed->size(), untimed->size());
  for (size_t i = 0; i < timed->size(); ++i) {
    EXPECT_EQ((*timed)[i].policy, (*untimed)[i].policy);
    EXPECT_EQ((*timed)[i].budget_pages, (*untimed)[i].budget_pages);
    EXPECT_EQ((*timed)[i].result.paging.hits, (*untimed)[i].result.hits) << (*timed)[i].policy;
    EXPECT_EQ((*timed)[i].result.paging.evictions, (*untimed)[i].result.evictions);
  }
}

RC_GTEST_PROP(TimedReplayProperty, CountsAgreeWithEachOther, (uint32_t seed)) {
  TimedOptions options = options_with(*rc::gen::inRange(0, 4'000));
  options.prefetch_pages = *rc::gen::inRange(0, 6);
  options.tiers.insert(options.tiers.begin(), {50, 2'000'000'000, 5});
  const auto policies =
      all_of<prefetch::ChosenPolicy>(prefetch::choose_policy, {"lru", "reuse_rate", "random"});
  const auto prefetchers = all_of<prefetch::ChosenPrefetcher>(
      prefetch::choose_prefetcher,
      {"none", "oracle", "previous_selection", "majority", "markov:least=1", "random"});
  const std::vector<uint64_t> budgets_pages = {1, 12};
  const auto trace = trace_of(drawn(seed));
  const auto runs =
      replay_all(trace, options, {policies, budgets_pages, prefetchers}, [](size_t) {});
  RC_ASSERT(runs.has_value());
  RC_ASSERT(runs->size() == policies.size() * budgets_pages.size() * prefetchers.size());
  for (const TimedRun& run : *runs) {
    const TimedResult& result = run.result;
    RC_ASSERT(result.paging.accesses == trace.accesses);
    const prefetch::PrefetchAccount& account = result.prefetch;
    RC_ASSERT(account.asked >= account.begun + account.cancelled + account.overtaken);
    RC_ASSERT(account.begun >=
              account.useful() + account.unused + account.evicted + account.failed);
    RC_ASSERT(result.prefetch.useful() <= result.prefetch.begun);
    RC_ASSERT(result.prefetch.timely <= result.prefetch.useful());
    RC_ASSERT(result.end_ns == result.steps * options.compute_ns + result.stall_ns);
    RC_ASSERT(result.paging.hits + result.paging.first_accesses + result.demand_fetches <=
              result.paging.accesses);
    if (run.prefetcher == "none" || options.prefetch_pages == 0) {
      RC_ASSERT(result.prefetch.begun == 0u);
      RC_ASSERT(result.paging.hits + result.paging.first_accesses + result.demand_fetches ==
                result.paging.accesses);
    }
  }
}

TEST(TimedRuns, WhoNeedsASignalThatIsNotThereIsRefused) {
  const std::vector<uint64_t> budgets_pages = {1};
  const auto policies = all_of<prefetch::ChosenPolicy>(prefetch::choose_policy, {"lru", "h2o"});
  const auto none = all_of<prefetch::ChosenPrefetcher>(prefetch::choose_prefetcher, {"none"});
  const auto runs =
      replay_all(trace_of({{0}}), options_with(1), {policies, budgets_pages, none}, [](size_t) {});
  ASSERT_FALSE(runs.has_value());
  EXPECT_THAT(runs.error().message, HasSubstr("h2o needs the column 'mass'"));
}

// Each step demands eight pages that all of them do, and two of sixteen in turns.
Steps with_a_core() {
  Steps steps;
  for (PageNumber step = 0; step < 200; ++step) {
    Steps::value_type pages = {0, 1, 2, 3, 4, 5, 6, 7};
    pages.push_back(8 + 2 * (step % 8));
    pages.push_back(9 + 2 * (step % 8));
    steps.push_back(pages);
  }
  return steps;
}
TEST(TimedReplay, WhatIsNearIsNamedAndUsesUpNoneOfWhatMayBeFetched) {
  // No more is fetched ahead than two pages, and the first eight that oracle names are near.
  TimedOptions options = options_with(20'000);
  options.prefetch_pages = 2;
  const auto policies = std::vector{*prefetch::choose_policy("lru")};
  std::vector<prefetch::ChosenPrefetcher> prefetchers;
  for (const char* name :
       {"oracle", "none", "previous_selection", "markov", "majority", "random"}) {
    prefetchers.push_back(*prefetch::choose_prefetcher(name));
  }
  const std::vector<uint64_t> budgets_pages = {14};
  const auto runs = replay_all(trace_of(with_a_core()), options,
                               {policies, budgets_pages, prefetchers}, [](size_t) {});
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_LE(runs->front().result.stall_ns, 2'200u);  // of the first steps
  EXPECT_GT((*runs)[1].result.stall_ns, 100'000u);
  for (const TimedRun& run : *runs) {
    EXPECT_LE(runs->front().result.stall_ns, run.result.stall_ns) << run.prefetcher;
  }
}
TEST(TimedReplay, StepsMayBeNumberedInAnyWay) {
  const Steps steps = with_a_core();
  const auto policies = std::vector{*prefetch::choose_policy("lru")};
  const auto prefetchers = std::vector{*prefetch::choose_prefetcher("oracle")};
  const std::vector<uint64_t> budgets_pages = {14};
  std::vector<TimedResult> results;
  for (const uint64_t stride : {1, 11, 1'000'000}) {
    const auto runs = replay_all(trace_of(steps, stride), options_with(20'000),
                                 {policies, budgets_pages, prefetchers}, [](size_t) {});
    ASSERT_TRUE(runs.has_value());
    results.push_back(runs->front().result);
  }
  EXPECT_GT(results[0].accuracy(), 0.5);
  for (const TimedResult& result : results) {
    EXPECT_EQ(result.prefetch.useful(), results[0].prefetch.useful());
    EXPECT_EQ(result.prefetch.begun, results[0].prefetch.begun);
    EXPECT_EQ(result.stall_ns, results[0].stall_ns);
  }
}
TEST(TimedReplay, StepsThatDemandMoreThanThereIsRoomForAreCounted) {
  const TimedResult result = replay_lru({{0, 1}, {0, 1, 2}, {2, 2, 2}}, 2, options_with(1'000));
  EXPECT_EQ(result.overfull_steps, 1u);
}
TEST(TimedReplay, WhatIsDroppedAsItLandsIsAskedForLess) {
  // Each step demands all that there is room for, and names what comes in no step.
  Steps steps = {{10, 11, 12, 13, 14, 15, 16, 17}};
  Steps told = {{}};
  for (int step = 0; step < 2'000; ++step) {
    steps.push_back({0, 1, 2, 3, 4, 5, 6, 7});
    told.push_back({10, 11, 12, 13, 14, 15, 16, 17});
  }
  const TimedResult result = replay_lru(steps, 8, options_with(100'000), told);
  EXPECT_EQ(result.prefetch.useful(), 0u);
  // Half of the room at first, and then a page a step.
  EXPECT_LT(result.prefetch.begun, 2'000u * 2);
}
TEST(TimedReplay, ATimeThatIsTooLongForFiguresIsRefused) {
  TimedOptions options = options_with(uint64_t{1} << 61);
  const auto policy = prefetch::lru().make({}, {});
  Told none({});
  const auto result = replay(trace_of({{0}, {0}, {0}}), 1, options, *policy, none);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("--compute-us"));
}

}  // namespace
}  // namespace farpage::vtime
