#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "lab/decode/decode_generator.h"
#include "lab/vtime/timed_replay.h"
#include "prefetch/registry/registry.h"

namespace farpage::vtime {
namespace {

// The reads of a decoder of the set `reasoning` in so many steps.
paging::AccessTrace synthetic_decode(uint64_t tokens) {
  decode::DecodeOptions options;
  options.tokens = tokens;
  decode::DecodeGenerator generator(options);
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < generator.script().steps(); ++step) generator.step(accesses);
  for (uint64_t i = 0; i < accesses.size(); ++i) accesses[i].number = i;
  paging::AccessTrace trace = paging::trace_of_accesses("made", true, std::move(accesses));
  trace.layout = {static_cast<uint32_t>(options.layers), static_cast<uint32_t>(options.heads)};
  return trace;
}

class SyntheticDecodeTest : public testing::TestWithParam<uint64_t> {
 protected:
  // By prefetcher and budget.
  using Results = std::map<std::pair<std::string, uint64_t>, TimedResult>;

  static Results replayed(const TimedOptions& options, const std::vector<uint64_t>& budgets_pages) {
    const std::vector policies = {*prefetch::choose_policy("lru")};
    const std::vector prefetchers = {*prefetch::choose_prefetcher("none"),
                                     *prefetch::choose_prefetcher("learned"),
                                     *prefetch::choose_prefetcher("milestone")};
    const TimedPlan plan = {policies, budgets_pages, prefetchers};
    const auto runs = replay_all(synthetic_decode(GetParam()), options, plan, [](size_t) {});
    EXPECT_TRUE(runs.has_value());
    Results results;
    for (const TimedRun& run : *runs) results[{run.prefetcher, run.budget_pages}] = run.result;
    return results;
  }
};

// The bounds hold for whoever names anything, from the beginning on.
TEST_P(SyntheticDecodeTest, WhoFetchesAheadNeverStallsFiftiethsMoreThanWhoDoesNot) {
  TimedOptions options;
  options.prefetch_pages = 200;
  const Results results = replayed(options, {512, 768});
  for (const auto& [run, result] : results) {
    const TimedResult& none = results.at({"none", run.second});
    EXPECT_LE(static_cast<double>(result.stall_ns), 1.02 * static_cast<double>(none.stall_ns))
        << run.first << " with " << run.second;
  }
  // And it is worth it.
  EXPECT_LT(static_cast<double>(results.at({"learned", 512}).stall_ns),
            0.65 * static_cast<double>(results.at({"none", 512}).stall_ns));
}
TEST_P(SyntheticDecodeTest, DemandsHardlyFeelOnALinkThatIsNeverFreeWhatIsFetchedAhead) {
  TimedOptions options;
  options.prefetch_pages = 200;
  options.compute_ns = 20'000;
  options.tiers = {{.latency_ns = 10'000, .bytes_per_s = 1'250'000'000}};
  const Results results = replayed(options, {512});
  for (const auto& [run, result] : results) {
    EXPECT_LE(result.demand_p99_ns, 1.05 * results.at({"none", 512}).demand_p99_ns) << run.first;
    EXPECT_EQ(result.prefetch.begun > 0, run.first != "none");
  }
}
// Where half of a step is the link's, what is under way when it ends is waited for.
TEST_P(SyntheticDecodeTest, WhatIsLateCostsNoMoreThanWhatIsMissed) {
  TimedOptions options;
  options.prefetch_pages = 200;
  options.compute_ns = 5'000'000;
  options.tiers = {{.latency_ns = 200'000, .bytes_per_s = 200'000'000}};
  const Results results = replayed(options, {512});
  for (const auto& [run, result] : results) {
    EXPECT_LE(static_cast<double>(result.stall_ns),
              1.02 * static_cast<double>(results.at({"none", 512}).stall_ns))
        << run.first;
  }
}
INSTANTIATE_TEST_SUITE_P(Tokens, SyntheticDecodeTest, testing::Values(600, 4'096),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace farpage::vtime
