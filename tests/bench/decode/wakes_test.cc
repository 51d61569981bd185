#include "bench/decode/wakes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/bench/decode/decoded.h"

namespace farpage::decode {
namespace {

// Of what wakes in all steps, what wakes in the busiest of them. Without churn, whatever enters a
// selection comes from afar.
double share_of_busiest(DecodeOptions options, double share_of_steps) {
  options.churn_stable = options.churn_unstable = 0;
  options.tokens = 20'000;
  const Decoded decoded(options);
  std::vector<double> woken;
  for (uint64_t step = 1'000; step < options.tokens; ++step) {
    double all = 0;
    for (uint64_t head = 0; head < 16; ++head) {
      all += static_cast<double>(decoded.entered(step, head).size());
    }
    woken.push_back(all);
  }
  std::ranges::sort(woken, std::greater());
  const auto busiest = static_cast<ptrdiff_t>(share_of_steps * static_cast<double>(woken.size()));
  return std::accumulate(woken.begin(), woken.begin() + busiest, 0.0) /
         std::accumulate(woken.begin(), woken.end(), 0.0);
}

TEST(Wakes, TheBusiestStepsHoldTheirShare) {
  EXPECT_NEAR(share_of_busiest(DecodeOptions(), 0.02), 0.54, 0.05);
}

// Of so many wakes, how many are in bursts, and how far the gaps were changed.
struct Scheduled {
  explicit Scheduled(const DecodeOptions& options) {
    const Script script(options);
    Wakes wakes(options, script);
    Random random(1);
    for (uint64_t now = 0; now < script.steps(); ++now) {
      wakes.schedule(random, now, 1, static_cast<uint32_t>(now), 0, 1);
      while (const auto wake = wakes.next(now)) {
        gaps.push_back(static_cast<double>(wake->step - wake->position));
        in_bursts += std::ranges::binary_search(script.burst_steps(), wake->step) ? 1 : 0;
      }
    }
    std::ranges::sort(gaps);
  }
  double share() const { return in_bursts / static_cast<double>(gaps.size()); }
  double quantile(double of) const {
    return gaps[static_cast<size_t>(of * static_cast<double>(gaps.size()))];
  }

  std::vector<double> gaps;
  double in_bursts = 0;
};

TEST(Wakes, BurstsHoldTheirShareAndLeaveTheGapsNearWhatTheyWere) {
  DecodeOptions options;
  options.tokens = 100'000;
  for (const double share : {0.0, 0.2, 0.54}) {
    options.burst_wakes = share;
    const Scheduled scheduled(options);
    // Of those that are not moved, a fiftieth is there by chance.
    EXPECT_NEAR(scheduled.share(), share + (1 - share) * 0.02, 0.015);
    EXPECT_NEAR(scheduled.quantile(0.5), 50, 6);
    EXPECT_NEAR(scheduled.quantile(0.8413), 50 * std::exp(1.49), 25);
    EXPECT_GE(scheduled.gaps.front(), 1);
  }
}

TEST(Wakes, WhatFallsAsleepComesBackAsOftenAsItsShare) {
  const auto entered = [](double sleepers_return) {
    DecodeOptions options = quiet();
    options.tokens = 8'000;
    options.sleepers_return = sleepers_return;
    const Decoded decoded(options);
    uint64_t all = 0;
    for (uint64_t step = 1; step < options.tokens; ++step) {
      for (uint64_t head = 0; head < 16; ++head) all += decoded.entered(step, head).size();
    }
    return all;
  };
  EXPECT_EQ(entered(0), 0u);
  EXPECT_GT(entered(0.2), 500u);
  EXPECT_GT(entered(0.6), 2 * entered(0.2));
}

}  // namespace
}  // namespace farpage::decode
