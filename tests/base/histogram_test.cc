#include "base/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace farpage {
namespace {

double exact_quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(samples.size())));
  return samples[std::max<size_t>(rank, 1) - 1];
}

TEST(Histogram, IsZeroWithoutSamples) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  EXPECT_TRUE(histogram.bins().empty());
}

RC_GTEST_PROP(Histogram, QuantilesAreWithinOnePercent, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> spread(10.0, 2.0);
  std::vector<double> samples(*rc::gen::inRange<size_t>(1, 3000));
  Histogram histogram;
  for (double& sample : samples) {
    sample = std::clamp(spread(random), 1.0, 1e11);
    histogram.add(sample);
  }
  for (const double q : {0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = exact_quantile(samples, q);
    RC_ASSERT(histogram.quantile(q) >= exact * (1 - 1e-9));
    RC_ASSERT(histogram.quantile(q) <= exact * 1.0101);
  }
}

TEST(Histogram, QuantileWithTooFewSamplesBeyondItIsNotSupported) {
  Histogram histogram;
  for (int i = 1; i < 1000; ++i) histogram.add(i);
  EXPECT_FALSE(histogram.supported_quantile(0.99).has_value());  // 9 of 999 lie beyond
  histogram.add(1000);
  ASSERT_TRUE(histogram.supported_quantile(0.99).has_value());
  EXPECT_NEAR(*histogram.supported_quantile(0.99), 990, 10);
  EXPECT_FALSE(histogram.supported_quantile(0.999).has_value());
  EXPECT_FALSE(Histogram().supported_quantile(0.5).has_value());
}

TEST(Histogram, SamplesOutsideCountInTheOutermostBins) {
  Histogram histogram;
  for (const double sample : {-5.0, 0.0, 0.5, 1e12, 1e300, HUGE_VAL}) histogram.add(sample);
  EXPECT_EQ(histogram.count(), 6u);
  const std::vector<HistogramBin> bins = histogram.bins();
  ASSERT_EQ(bins.size(), 2u);
  EXPECT_EQ(bins.front().count, 3u);
  EXPECT_NEAR(bins.front().lower, 1.0, 1e-9);
  EXPECT_EQ(bins.back().count, 3u);
  EXPECT_NEAR(bins.back().upper, 1e12, 1e3);
}

TEST(Histogram, ASampleThatIsNoNumberIsCountedAndHarmsNothing) {
  Histogram histogram;
  histogram.add(std::nan(""));
  histogram.add(100);
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_NEAR(histogram.quantile(1), 100, 1.01);
}

RC_GTEST_PROP(Histogram, MergedIsTheSameAsAddedToOne,
              (const std::vector<uint32_t>& a, const std::vector<uint32_t>& b)) {
  Histogram left;
  Histogram right;
  Histogram whole;
  for (const uint32_t sample : a) {
    left.add(sample);
    whole.add(sample);
  }
  for (const uint32_t sample : b) {
    right.add(sample);
    whole.add(sample);
  }
  left.merge(right);
  RC_ASSERT(left.count() == whole.count());
  const std::vector<HistogramBin> merged = left.bins();
  const std::vector<HistogramBin> added = whole.bins();
  RC_ASSERT(merged.size() == added.size());
  uint64_t total = 0;
  for (size_t i = 0; i < merged.size(); ++i) {
    RC_ASSERT(merged[i].lower == added[i].lower);
    RC_ASSERT(merged[i].count == added[i].count);
    RC_ASSERT(merged[i].upper / merged[i].lower < 1.0101);
    total += merged[i].count;
  }
  RC_ASSERT(total == left.count());
}

}  // namespace
}  // namespace farpage
