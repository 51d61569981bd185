#include "tier/link/breaker.h"

#include <gtest/gtest.h>

#include "tier/fetch/recent_latency.h"

namespace farpage {
namespace {

TEST(BreakerTest, OpensAfterFailuresInARow) {
  Breaker breaker;
  for (uint32_t i = 1; i < Breaker::kMost; ++i) breaker.failed(0);
  breaker.succeeded();
  for (uint32_t i = 1; i < Breaker::kMost; ++i) breaker.failed(0);
  EXPECT_TRUE(breaker.allows(0));
  breaker.failed(0);
  EXPECT_FALSE(breaker.allows(0));
  EXPECT_EQ(breaker.times_opened(), 1u);
}

TEST(BreakerTest, LetsOneAttemptThroughAfterAPause) {
  Breaker breaker;
  for (uint32_t i = 0; i < Breaker::kMost; ++i) breaker.failed(0);
  EXPECT_FALSE(breaker.allows(10 * kMillisecond - 1));
  ASSERT_TRUE(breaker.allows(10 * kMillisecond));
  breaker.asked(10 * kMillisecond);
  EXPECT_FALSE(breaker.allows(10 * kMillisecond));
  breaker.failed(11 * kMillisecond);  // a pause twice as long
  EXPECT_FALSE(breaker.allows(31 * kMillisecond - 1));
  ASSERT_TRUE(breaker.allows(31 * kMillisecond));
  breaker.succeeded();
  EXPECT_TRUE(breaker.allows(31 * kMillisecond));
  EXPECT_FALSE(breaker.open());
}

TEST(RecentLatencyTest, SaysNothingOfAFewReads) {
  RecentLatency latency;
  for (int i = 0; i < 63; ++i) latency.add(1000);
  EXPECT_FALSE(latency.known());
  latency.add(1000);
  EXPECT_TRUE(latency.known());
}

// To a quarter of an octave, upwards.
TEST(RecentLatencyTest, OneReadInAHundredIsBeyondTheP98) {
  RecentLatency latency;
  for (int i = 0; i < 6400; ++i) latency.add(i % 100 == 7 ? 200'000 : 10'000);
  EXPECT_GE(latency.median_ns(), 10'000u);
  EXPECT_LE(latency.median_ns(), 12'500u);
  EXPECT_GE(latency.p98_ns(), 10'000u);
  EXPECT_LE(latency.p98_ns(), 12'500u);
}

TEST(RecentLatencyTest, FollowsAPeerThatHasChanged) {
  RecentLatency latency;
  for (int i = 0; i < 100'000; ++i) latency.add(10'000);
  for (int i = 0; i < 4'000; ++i) latency.add(1'000'000);
  EXPECT_GE(latency.median_ns(), 1'000'000u);
  for (int i = 0; i < 8'000; ++i) latency.add(10'000);
  EXPECT_LE(latency.p98_ns(), 12'500u);
}

}  // namespace
}  // namespace farpage
