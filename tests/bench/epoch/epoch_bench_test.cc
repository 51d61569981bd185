#include "bench/epoch/epoch_bench.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

const auto kNotInterrupted = [] { return false; };
const auto kNobody = [](uint64_t, uint64_t) {};

TEST(EpochBench, MembersThatJoinTakePagesAndOneThatLeavesTakesNone) {
  const EpochBenchOptions options = {.pages = 3'000, .members = 4, .lease_ms = 3'000};
  const auto result = run_epoch_bench(options, shm::make_shm_fabric, kNotInterrupted, kNobody);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->pages, 3'000u);
  ASSERT_EQ(result->phases.size(), 4u);
  EXPECT_EQ(result->phases[0].killed, 0u);
  EXPECT_NEAR(static_cast<double>(result->phases[1].killed), 3'000 * 0.75, 200) << "three of four";
  EXPECT_EQ(result->phases[2].killed, 0u);
  EXPECT_GT(result->phases[3].killed, 0u);
  for (const EpochPhase& phase : result->phases) {
    EXPECT_GT(phase.answers_per_s, 0);
    EXPECT_GT(phase.longest_gap_ms, 0);
    EXPECT_EQ(phase.without_view, 0u);
    EXPECT_GT(phase.seconds, 0);
  }
  const auto json = epoch_json(options, *result, "1");
  EXPECT_EQ(json.at("phases").as_array().size(), 4u);
  EXPECT_EQ(json.at("longest_renewal_gap_ms").as_double(), result->longest_renewal_gap_ms());
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
