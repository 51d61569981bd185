#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/lab/decode/decoded.h"

namespace farpage::decode {
namespace {

// One head, whose far pages all go after a step, so that every return to a page is seen.
DecodeOptions with_milestones_alone() {
  DecodeOptions options = quiet();
  options.layers = options.heads = 1;
  options.tokens = 100'000;
  options.recent_share = 0.05;  // the newest page alone
  options.churn_stable = options.churn_unstable = 1;
  options.milestones = 0.35;
  return options;
}

// By position: the steps that read a milestone after it was written.
std::map<uint32_t, std::vector<uint64_t>> returns_of(const Decoded& decoded) {
  std::map<uint32_t, std::vector<uint64_t>> returns;
  const Script& script = decoded.generator.script();
  for (uint32_t position = 0; position < script.positions(); ++position) {
    if (script.milestones()[position]) returns[position];
  }
  for (uint64_t step = 0; step < script.steps(); ++step) {
    for (const uint32_t position : decoded.read[step][0]) {
      if (script.milestones()[position] && position < script.position_of(step)) {
        returns[position].push_back(step);
      }
    }
  }
  return returns;
}

struct Gaps {
  double median = 0;
  double sigma = 0;
  size_t count = 0;
};

Gaps gaps_of(const DecodeOptions& options) {
  std::vector<double> logarithms;
  for (const auto& [position, steps] : returns_of(Decoded(options))) {
    for (size_t i = 1; i < steps.size(); ++i) {
      logarithms.push_back(std::log(static_cast<double>(steps[i] - steps[i - 1])));
    }
  }
  std::ranges::sort(logarithms);
  // Gaps of whole steps are cut at 1: the upper half tells the width.
  const auto quantile = [&](double share) {
    return logarithms[static_cast<size_t>(share * static_cast<double>(logarithms.size()))];
  };
  return {std::exp(quantile(0.5)), quantile(0.8413) - quantile(0.5), logarithms.size()};
}

TEST(Milestones, GapsAreLognormalWithTheirMedianAndWidth) {
  const Gaps wide = gaps_of(with_milestones_alone());
  ASSERT_GT(wide.count, 2'000u);
  // A third of the segments verify, with a factor of 0.6.
  EXPECT_NEAR(wide.median, 42, 5);
  EXPECT_NEAR(wide.sigma, 1.5, 0.12);
  DecodeOptions options = with_milestones_alone();
  options.explore_gap = options.verify_gap = options.conclude_gap = 1;
  options.gap_median_steps = 20;
  options.gap_sigma = 0.5;
  const Gaps narrow = gaps_of(options);
  EXPECT_NEAR(narrow.median, 20, 1);
  EXPECT_NEAR(narrow.sigma, 0.5, 0.05);
}

TEST(Milestones, APhaseHasItsGaps) {
  const auto median_of = [](double explore, double verify, double conclude) {
    DecodeOptions options = with_milestones_alone();
    options.explore = explore;
    options.verify = verify;
    options.conclude = conclude;
    options.gap_sigma = 0.5;
    return gaps_of(options).median;
  };
  EXPECT_NEAR(median_of(1, 0, 0), 50, 2);
  EXPECT_NEAR(median_of(0, 1, 0), 30, 2);
  EXPECT_NEAR(median_of(0, 0, 1), 40, 2);
}

TEST(Milestones, AreReturnedToUntilTheyAreDead) {
  const DecodeOptions options = with_milestones_alone();
  const Decoded decoded(options);
  double milestones = 0;
  double returns = 0;
  double squares = 0;
  for (const auto& [position, steps] : returns_of(decoded)) {
    if (position > 4'000) continue;  // whose returns may come after the end
    const auto count = static_cast<double>(steps.size());
    ++milestones;
    returns += count;
    squares += count * count;
  }
  ASSERT_GT(milestones, 150);
  const double mean = returns / milestones;
  EXPECT_NEAR(mean, 12, 2.4);  // three standard errors
  EXPECT_NEAR(std::sqrt(squares / milestones - mean * mean) / mean, 1, 0.25);
}

TEST(Milestones, WithoutReturnsTheyAreNeverReadAgain) {
  DecodeOptions options = with_milestones_alone();
  options.milestone_returns = 0;
  options.redraw = 0.5;  // which takes others at random
  options.tokens = 20'000;
  for (const auto& [position, steps] : returns_of(Decoded(options))) {
    EXPECT_TRUE(steps.empty()) << position;
  }
}

TEST(Milestones, AReturnReachesOneHeadAndThoseThatCopy) {
  DecodeOptions options = with_milestones_alone();
  options.layers = options.heads = 4;
  options.tokens = 8'000;
  for (const double copied : {0.0, 0.3, 1.0}) {
    options.copied_least = options.copied_most = copied;
    const Decoded decoded(options);
    const Script& script = decoded.generator.script();
    double returns = 0;
    double reached = 0;
    for (uint64_t step = 0; step < script.steps(); ++step) {
      std::map<uint32_t, int> heads;
      for (uint64_t head = 0; head < 16; ++head) {
        for (const uint32_t position : decoded.read[step][head]) {
          if (script.milestones()[position] && position < script.position_of(step)) {
            ++heads[position];
          }
        }
      }
      for (const auto& [position, count] : heads) {
        ++returns;
        reached += count;
      }
    }
    ASSERT_GT(returns, 150);
    EXPECT_NEAR(reached / returns, 1 + 15 * copied, 0.3);
  }
}

}  // namespace
}  // namespace farpage::decode
