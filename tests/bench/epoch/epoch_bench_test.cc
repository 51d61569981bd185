#include "bench/epoch/epoch_bench.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

const auto kNotInterrupted = [] { return false; };
const auto kNobody = [](uint64_t, uint64_t) {};

TEST(EpochBench, MembersThatJoinTakePagesAndOneThatLeavesTakesNone) {
  const EpochBenchOptions options = {.pages = 3'000, .members = 4, .lease_ms = 3'000};
  auto result = run_epoch_bench(options, shm::make_shm_fabric, kNotInterrupted, kNobody);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->pages, 3'000u);
  ASSERT_EQ(result->phases.size(), 3u);
  EXPECT_EQ(result->quiet.killed, 0u);
  EXPECT_GE(result->quiet.seconds, 2);
  EXPECT_NEAR(static_cast<double>(result->phases[0].killed), 3'000 * 0.75, 200) << "three of four";
  EXPECT_EQ(result->phases[1].killed, 0u);
  EXPECT_GT(result->phases[2].killed, 0u);
  result->phases.push_back(result->quiet);
  for (const EpochPhase& phase : result->phases) {
    EXPECT_GT(phase.per_s, 0);
    EXPECT_GT(phase.longest_ms, 0);
    EXPECT_EQ(phase.missed, 0u);
    EXPECT_GT(phase.seconds, 0);
  }
  result->phases.pop_back();
  const auto json = epoch_json(options, *result, "1");
  EXPECT_EQ(json.at("phases").as_array().size(), 3u);
  EXPECT_EQ(json.at("quiet").as_object().at("killed").as_uint64(), 0u);
  EXPECT_EQ(json.at("longest_renewal_gap_ms").as_double(), result->longest_ms());
}

TEST(EpochBench, FetchesGoOnBesideAnEpoch) {
  const EpochBenchOptions options = {.pages = 3'000, .lease_ms = 3'000, .fetches = true};
  const auto result = run_epoch_bench(options, shm::make_shm_fabric, kNotInterrupted, kNobody);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->phases.size(), 3u);
  EXPECT_GT(result->phases[0].killed, 0u);
  EXPECT_GT(result->quiet.per_s, 0);
  for (const EpochPhase& phase : result->phases) {
    EXPECT_GT(phase.per_s, 0);
    EXPECT_EQ(phase.missed, 0u) << phase.what << ": pages that stay";
  }
  const auto json = epoch_json(options, *result, "1");
  EXPECT_EQ(json.at("longest_fetch_ms").as_double(), result->longest_ms());
}

TEST(EpochBench, ThroughputIsThatOfTheSlowestEpochThatLasts) {
  EpochBenchResult result;
  result.quiet = {"none", 2, 100};
  result.phases = {{"joins", 3, 80}, {"leaves", 0.03, 10}, {"joins", 1, 90}};
  EXPECT_DOUBLE_EQ(result.least_throughput(), 0.8);
  result.phases.clear();
  EXPECT_EQ(result.least_throughput(), 0);
}

TEST(EpochBench, FewPagesThatStayAreAnError) {
  const EpochBenchOptions options = {.pages = 100, .members = 200, .fetches = true};
  const auto result = run_epoch_bench(options, shm::make_shm_fabric, kNotInterrupted, kNobody);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("choose more pages"), std::string::npos);
}

TEST(EpochBench, RefusesWhatCannotBeMeasured) {
  EXPECT_FALSE(EpochBenchOptions{.pages = 0}.validate());
  EXPECT_FALSE(EpochBenchOptions{.page_bytes = 8}.validate());
  EXPECT_FALSE(EpochBenchOptions{.members = 1}.validate());
  EXPECT_FALSE(EpochBenchOptions{.members = 1024}.validate());
  EXPECT_FALSE(EpochBenchOptions{.lease_ms = 1}.validate());
  EXPECT_TRUE(EpochBenchOptions{}.validate());
}

}  // namespace
}  // namespace farpage
