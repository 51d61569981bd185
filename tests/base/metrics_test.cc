#include "base/metrics.h"

#include <gtest/gtest.h>

#include <thread>

namespace farpage {
namespace {

TEST(Counter, AddsAndKeepsTheLargest) {
  Counter counter;
  EXPECT_EQ(counter.value(), 0u);
  counter.add();
  counter.add(41);
  EXPECT_EQ(counter.value(), 42u);
  counter.raise_to(7);
  EXPECT_EQ(counter.value(), 42u);
  counter.raise_to(100);
  EXPECT_EQ(counter.value(), 100u);
}

TEST(Counter, ReaderSeesItGrowToTheEnd) {
  constexpr uint64_t kEnd = 200'000;
  Counter counter;
  std::thread writer([&counter] {
    for (uint64_t i = 0; i < kEnd; ++i) counter.add();
  });
  uint64_t last = 0;
  while (last < kEnd) {
    const uint64_t now = counter.value();
    ASSERT_GE(now, last);
    last = now;
  }
  writer.join();
  EXPECT_EQ(counter.value(), kEnd);
}

size_t bucket_of(uint64_t duration_ns) {
  DurationHistogram histogram;
  histogram.add(duration_ns);
  for (size_t i = 0; i <= DurationHistogram::kBounds; ++i) {
    if (histogram.bucket(i) == 1) return i;
  }
  return SIZE_MAX;
}

TEST(DurationHistogram, BoundBelongsToTheBucketBelowIt) {
  EXPECT_EQ(DurationHistogram::bound_ns(0), 1'024u);
  EXPECT_EQ(DurationHistogram::bound_ns(10), 1'048'576u);
  EXPECT_EQ(bucket_of(0), 0u);
  EXPECT_EQ(bucket_of(1), 0u);
  for (size_t i = 0; i < DurationHistogram::kBounds; ++i) {
    EXPECT_EQ(bucket_of(DurationHistogram::bound_ns(i)), i);
    EXPECT_EQ(bucket_of(DurationHistogram::bound_ns(i) + 1), i + 1);
  }
  EXPECT_EQ(bucket_of(UINT64_MAX), DurationHistogram::kBounds);
}

TEST(DurationHistogram, CountsAndSums) {
  DurationHistogram histogram;
  histogram.add(500);
  histogram.add(2'000);
  DurationHistogram other;
  other.add(2'001);
  other.add(histogram);
  EXPECT_EQ(other.count(), 3u);
  EXPECT_EQ(other.sum_ns(), 4'501u);
  EXPECT_EQ(other.bucket(0), 1u);
  EXPECT_EQ(other.bucket(1), 2u);
}

}  // namespace
}  // namespace farpage
