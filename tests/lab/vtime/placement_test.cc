#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/vtime/timed_replay.h"
#include "prefetch/registry/registry.h"

// Which pages lie in which tier, and what that costs in time and precision.
namespace farpage::vtime {
namespace {

using prefetch::PageNumber;

// Page 0 has three times the mass of any other.
paging::AccessTrace trace_of(const std::vector<std::vector<PageNumber>>& steps) {
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    for (const PageNumber page : steps[step]) {
      prefetch::Access access = {accesses.size(), step, page};
      access.mass = page == 0 ? 0.75F : 0.25F;
      accesses.push_back(access);
    }
  }
  return paging::trace_of_accesses("test", true, std::move(accesses));
}

// A page takes 1 µs, of the second tier 16 µs where it is whole, and no latency.
TimedOptions options_with(uint64_t first_pages, uint32_t second_bits) {
  TimedOptions options;
  options.page_bytes = 1'000;
  options.tiers = {{0, 1'000'000'000, first_pages, 16}, {0, 62'500'000, 0, second_bits}};
  return options;
}

// One page is near.
std::vector<TimedRun> replayed(const paging::AccessTrace& trace, const TimedOptions& options,
                               const std::vector<std::string>& placements) {
  const std::vector<uint64_t> budgets_pages = {1};
  const auto policies = std::vector{*prefetch::choose_policy("lru")};
  const auto prefetchers = std::vector{*prefetch::choose_prefetcher("none")};
  std::vector<prefetch::ChosenPolicy> placed;
  for (const std::string& name : placements) placed.push_back(*prefetch::choose_policy(name));
  auto runs =
      replay_all(trace, options, {policies, budgets_pages, prefetchers, placed}, [](size_t) {});
  EXPECT_TRUE(runs.has_value());
  return *runs;
}

TEST(Placement, AFarTierIsSlowerAndHasALinkOfItsOwn) {
  TimedOptions options = options_with(1, 16);
  options.tiers = {{100, 1'000'000'000, 1, 16}, {7'000, 500'000'000, 0, 16}};
  const auto stall_ns = [&](const std::vector<PageNumber>& last) {
    return replayed(trace_of({{0}, {1}, {2}, {3}, last}), options, {"lru"})[0].result.stall_ns;
  };
  // When 3 is made, 2 is in the first tier, and 0 and 1 are in the second.
  EXPECT_EQ(stall_ns({2}), 1'100u);
  EXPECT_EQ(stall_ns({0}), 9'000u);
  EXPECT_EQ(stall_ns({0, 1}), 11'000u);
  options.tiers[0].capacity_pages = 2;  // now 1 is with 2
  const auto runs = replayed(trace_of({{0}, {1}, {2}, {3}, {0, 2}}), options, {"lru"});
  EXPECT_EQ(runs[0].result.waited_ns, 0u);
}

TEST(Placement, WhatIsFetchedFromARoughTierIsShorterAndImpreciseForGood) {
  // 1 and 2 drive 0 out of the first tier; then it comes from the second, and once more from the
  // first.
  const auto runs =
      replayed(trace_of({{0}, {1}, {2}, {0}, {0}, {1}, {0}}), options_with(1, 4), {"lru"});
  const TimedResult& result = runs[0].result;
  EXPECT_EQ(result.imprecise_accesses, 4u);  // all but the first three
  EXPECT_DOUBLE_EQ(result.imprecise_share(), 4.0 / 7);
  EXPECT_DOUBLE_EQ(result.imprecise_mass, (3 * 0.75 + 0.25) / (4 * 0.75 + 3 * 0.25));
  // 0 and 1 from the second tier, a quarter of 16 µs each; 0 from the first, a quarter of one.
  EXPECT_EQ(result.stall_ns, 2 * 4'000u + 250u);
}
TEST(Placement, WhereNoTierIsRoughNothingIsImprecise) {
  const auto runs =
      replayed(trace_of({{0}, {1}, {2}, {0}, {0}, {1}, {0}}), options_with(1, 16), {"lru"});
  EXPECT_EQ(runs[0].result.imprecise_accesses, 0u);
  EXPECT_EQ(runs[0].result.imprecise_mass, 0);
  EXPECT_EQ(runs[0].result.stall_ns, 2 * 16'000u + 1'000u);
}
TEST(Placement, EachOfThoseNamedDecidesWhatStaysInTheFirstTier) {
  // 0 is asked for often, and between that pages that never come again.
  std::vector<std::vector<PageNumber>> steps = {{0}};
  for (PageNumber i = 0; i < 100; ++i) {
    steps.push_back({0});
    for (PageNumber other = 0; other < 4; ++other) steps.push_back({1 + 4 * i + other});
  }
  const auto runs =
      replayed(trace_of(steps), options_with(2, 4), {"lru", "heavy_hitter", "belady"});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].placement, "lru");
  EXPECT_EQ(runs[1].placement, "heavy_hitter");
  EXPECT_EQ(runs[0].result.imprecise_accesses, 99u);
  EXPECT_EQ(runs[1].result.imprecise_accesses, 0u);
  EXPECT_EQ(runs[2].result.imprecise_accesses, 0u);
  EXPECT_EQ(runs[1].result.stall_ns, 99 * 1'000u);
}
TEST(Placement, LearnsWhichPagesComeBackAndLetsTheOthersLoseTheirPrecision) {
  // Of two heads, the pages of one come back every 30 steps, and those of the other never.
  std::vector<prefetch::Access> accesses;
  PageNumber fresh = 10;
  for (uint64_t step = 0; step < 3'000; ++step) {
    const bool is_back = step % 3 == 0;
    prefetch::Access access;
    access.number = access.step = step;
    access.page = is_back ? static_cast<PageNumber>(step / 3 % 10) : fresh++;
    access.head = is_back ? 0 : 1;
    accesses.push_back(access);
  }
  auto trace = paging::trace_of_accesses("test", true, std::move(accesses));
  trace.layout.heads = 2;
  const auto runs = replayed(trace, options_with(20, 4), {"lru", "milestone"});
  EXPECT_EQ(runs[0].result.imprecise_accesses, 990u);  // all that came back
  EXPECT_LT(runs[1].result.stall_ns * 2, runs[0].result.stall_ns);
}

}  // namespace
}  // namespace farpage::vtime
