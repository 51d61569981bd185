#include "lab/decode/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lab/decode/zipf.h"

namespace farpage::decode {
namespace {

constexpr int kDraws = 100'000;

template <typename Draw>
std::vector<double> sorted(Draw draw) {
  std::vector<double> values;
  for (int i = 0; i < kDraws; ++i) values.push_back(static_cast<double>(draw()));
  std::ranges::sort(values);
  return values;
}
double quantile(const std::vector<double>& values, double share) {
  return values[static_cast<size_t>(share * static_cast<double>(values.size()))];
}
double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(Draw, ExponentialHasItsMeanAndMedian) {
  Random random(1);
  const auto values = sorted([&] { return draw_exponential(random, 12); });
  EXPECT_NEAR(mean(values), 12, 0.15);
  EXPECT_NEAR(quantile(values, 0.5), 12 * std::log(2), 0.15);
}

TEST(Draw, NormalHasItsQuantiles) {
  Random random(2);
  const auto values = sorted([&] { return draw_normal(random); });
  EXPECT_NEAR(mean(values), 0, 0.012);
  EXPECT_NEAR(quantile(values, 0.8413), 1, 0.02);
  EXPECT_NEAR(quantile(values, 0.0228), -2, 0.04);
  EXPECT_NEAR(quantile(values, 0.99865), 3, 0.15);
}

TEST(Draw, GapsAreLognormalAndAtLeastAStep) {
  Random random(3);
  const auto values = sorted([&] { return draw_gap_steps(random, 50, 1.49); });
  EXPECT_NEAR(quantile(values, 0.5), 50, 1);
  EXPECT_NEAR(quantile(values, 0.8413), 50 * std::exp(1.49), 6);
  EXPECT_GE(values.front(), 1);
}

TEST(Draw, OutputsHaveTheQuantilesOfTheirOptions) {
  Random random(4);
  const DecodeOptions options;
  const auto values = sorted([&] { return draw_output_tokens(random, options); });
  EXPECT_NEAR(quantile(values, 0.5) / 1'014, 1, 0.02);
  EXPECT_NEAR(quantile(values, 0.9) / 5'423, 1, 0.03);
  EXPECT_NEAR(quantile(values, 0.99) / 15'063, 1, 0.05);
}

TEST(Zipf, TheFirstFifthHoldsWhatItShould) {
  for (const uint64_t ranks : {24, 64, 100}) {
    for (const double top : {0.3, 0.565, 0.75}) {
      const auto shares = zipf_shares(ranks, zipf_exponent(ranks, top));
      EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
      EXPECT_NEAR(top_fifth(shares), top, 1e-6);
      // Zipf: twice the rank, always the same part.
      EXPECT_NEAR(shares[1] / shares[0], shares[3] / shares[1], 1e-9);
    }
  }
  EXPECT_TRUE(zipf_shares(0, 1).empty());
}

TEST(Zipf, APartOfARankCountsInPart) {
  EXPECT_NEAR(top_fifth({0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02}), 0.5 + 0.4 * 0.2, 1e-12);
}

}  // namespace
}  // namespace farpage::decode
