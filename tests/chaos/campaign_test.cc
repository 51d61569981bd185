#include "chaos/campaign.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "chaos/campaign_options.h"
#include "chaos/run.h"

namespace farpage::chaos {
namespace {

constexpr uint64_t kRuns = 100;  // tests/cli/lab/chaos_test.py has more

TEST(ChaosCampaign, EveryKindIsCaughtAndNothingIsFound) {
  CampaignOptions options;
  options.seeds = kRuns;
  options.jobs = 2;
  const CampaignResult result = run_campaign(options, [](uint64_t) {});
  std::printf("%s", campaign_table(result).c_str());
  EXPECT_TRUE(result.holds());
  EXPECT_EQ(result.counts.runs, kRuns);
  for (Kind kind = 0; kind < kKinds; ++kind) {
    EXPECT_LE(result.counts.caught[kind], result.counts.injected[kind]) << kind_name(kind);
    if (kind == kind_of(Disturbance::kRegisterSilent)) continue;  // a single node has no register
    if (kind == kind_of(Disturbance::kEpochUnread)) continue;
    EXPECT_GT(result.counts.caught[kind], 0u) << kind_name(kind);
  }
  EXPECT_GT(result.counts.ready, 50 * kRuns);
  EXPECT_GT(result.counts.puts_acknowledged, 10 * kRuns);
}

TEST(ChaosCampaign, TwoProcessesDoWhatOneDoes) {
  CampaignOptions options;
  options.seeds = 10;
  const CampaignResult one = run_campaign(options, [](uint64_t) {});
  options.jobs = 2;
  const CampaignResult two = run_campaign(options, [](uint64_t) {});
  EXPECT_EQ(one.counts.injected, two.counts.injected);
  EXPECT_EQ(one.counts.ready, two.counts.ready);
  EXPECT_EQ(two.counts.runs, 10u);
}

TEST(ChaosCampaign, KindOfManyThatIsNeverCaughtIsNamed) {
  constexpr Kind kLate = kind_of(fault::FaultKind::kLate);
  CampaignResult result;
  result.counts.injected[kLate] = kManyTimes - 1;
  EXPECT_TRUE(result.never_caught().empty()) << "too few to say";
  result.counts.injected[kLate] = kManyTimes;
  EXPECT_EQ(result.never_caught(), std::vector{kind_name(kLate)});
  EXPECT_TRUE(result.holds()) << "no run has failed";
  result.counts.caught[kLate] = 1;
  EXPECT_TRUE(result.never_caught().empty());
}

TEST(ChaosCampaign, OptionsOutOfRangeAreRefused) {
  CampaignOptions options;
  EXPECT_TRUE(options.validate());
  options.plan.replicas = 2;
  EXPECT_FALSE(options.validate());
  options.plan.replicas = 1;
  EXPECT_TRUE(options.validate());
  options.jobs = 0;
  EXPECT_FALSE(options.validate());
  EXPECT_FALSE(check_cluster_size(65, 3, 2));
  EXPECT_TRUE(check_cluster_size(64, 16, 2));
  EXPECT_EQ(check_cluster_size(1, 65, 2).error().message, "65 nodes: choose 1 to 64");
  EXPECT_EQ(check_cluster_size(1, 3, 4).error().message, "4 replicas on 3 nodes: choose 1 to 3");
}

TEST(ChaosCampaign, CountsOfRunsAddUp) {
  RunCounts sum;
  const RunResult run = run_plan(draw_plan(1, {}));
  sum += run;
  sum += run;
  EXPECT_EQ(sum.runs, 2u);
  EXPECT_EQ(sum.injected[0], 2 * run.injected[0]);
  for (const auto& [name, count] : kRunCounts) EXPECT_EQ(sum.*count, 2 * run.*count) << name;
}

}  // namespace
}  // namespace farpage::chaos
