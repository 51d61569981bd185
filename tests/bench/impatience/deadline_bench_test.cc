#include "bench/impatience/deadline_bench.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "report/watchdog.h"
#include "tests/support/cluster.h"

namespace farpage {
namespace {

// As if 1,000 fetches had ended in time beside a watchdog that was late by this much at most.
DeadlineBenchResult watched(uint64_t delay_most_ns) {
  DeadlineBenchResult result;
  result.fetches = {400, 300, 300};
  result.delay_most_ns = delay_most_ns;
  result.delay_ns.add(static_cast<double>(delay_most_ns));
  return result;
}

TEST(DeadlineJudgement, HoldsWhereNoVerdictIsLaterThanTheWatchdog) {
  DeadlineBenchResult result = watched(3'000);
  EXPECT_TRUE(judge_deadlines(result).holds());
  result.lateness_ns = {0, 2'999, 3'000, 17};
  EXPECT_TRUE(judge_deadlines(result).holds());
  EXPECT_EQ(judge_deadlines(result).slowest_ns, 3'000);
  EXPECT_EQ(judge_deadlines(result).late, 0);
}

TEST(DeadlineJudgement, FailsWithOneVerdictThatIs) {
  DeadlineBenchResult result = watched(3'000);
  result.lateness_ns = {0, 3'001, 5};
  EXPECT_FALSE(judge_deadlines(result).holds());
  EXPECT_EQ(judge_deadlines(result).late, 1);
  EXPECT_EQ(judge_deadlines(result).slowest_ns, 3'001);
  result.lateness_ns.push_back(70'000);
  EXPECT_EQ(judge_deadlines(result).late, 2);
}

TEST(DeadlineJudgement, FailsWhereNothingWasMeasured) {
  DeadlineBenchResult nothing_fetched = watched(3'000);
  nothing_fetched.fetches = {};
  EXPECT_FALSE(judge_deadlines(nothing_fetched).holds());
  DeadlineBenchResult unwatched;
  unwatched.fetches = {1, 1, 1};
  EXPECT_FALSE(judge_deadlines(unwatched).holds());
}

TEST(DeadlineBenchTest, CountsEveryFetchOnceAndComparesEveryByte) {
  Cluster cluster(Path::kTcp);
  const auto client = cluster.connect();
  DeadlineBenchOptions options;
  options.page_bytes = 4 * kKiB;
  options.batch = 16;
  options.pool_bytes = 64 * options.page_bytes;
  options.seconds = 3600;
  uint64_t asked = 0;  // before each fetch
  bool filled = false;
  const auto result = run_deadline_bench(
      *client, options, [&] { return filled && ++asked > 30; }, [&] { filled = true; });
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->interrupted);
  EXPECT_EQ(result->fetches, (std::array<uint64_t, 3>{10, 10, 10}));
  uint64_t recompute = 0;
  for (const uint64_t count : result->recompute) recompute += count;
  EXPECT_EQ(result->ready + recompute, 30 * options.batch);
  EXPECT_EQ(result->wrong_bytes, 0);
  EXPECT_LE(result->lateness_ns.size(), 30);
  EXPECT_GT(result->delay_ns.count(), 0);
  const Capabilities capabilities = client->capabilities();
  const auto json = deadline_json({options, *result, capabilities, "1"});
  EXPECT_EQ(json.at("fetches").to_number<int>(), 30);
  EXPECT_EQ(json.at("late").to_number<uint64_t>(), judge_deadlines(*result).late);
}

TEST(WatchdogTest, KnowsItsLongestDelay) {
  const uint64_t begin = boottime_clock().now_ns();
  Watchdog watchdog;
  watchdog.stop();
  const uint64_t lived = boottime_clock().now_ns() - begin;
  ASSERT_GT(watchdog.delay_ns().count(), 0);
  EXPECT_GE(lived, Watchdog::kWorkNs + Watchdog::kNapNs + watchdog.most_ns());
  EXPECT_GT(watchdog.most_ns(), 0);
  EXPECT_LE(static_cast<double>(watchdog.most_ns()), watchdog.delay_ns().quantile(1) * 1.001);
}

}  // namespace
}  // namespace farpage
