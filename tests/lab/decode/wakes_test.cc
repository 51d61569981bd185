#include "lab/decode/wakes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "tests/lab/decode/decoded.h"

namespace farpage::decode {
namespace {

// Of what wakes in all steps, what wakes in the busiest of them. Without churn, whatever enters a
// selection comes from far memory.
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

// One head goes first, where all copy and nothing else wakes: by how many steps the others follow.
TEST(Wakes, HeadsThatCopyFollowEvenlyWithinTheSpread) {
  for (const uint64_t spread : {uint64_t{0}, uint64_t{2}, uint64_t{6}}) {
    DecodeOptions options = quiet();
    options.tokens = 20'000;
    options.milestones = 1;
    options.copied_least = options.copied_most = 1;
    options.return_spread_steps = spread;
    options.gap_median_steps = 400;  // far more than the spread, so that returns are told apart
    options.gap_sigma = 0.2;
    options.explore_gap = options.verify_gap = options.conclude_gap = 1;
    const Decoded decoded(options);
    const Script& script = decoded.generator.script();
    std::map<uint32_t, uint64_t> first;  // the last return's first step, by position
    std::map<uint32_t, double> returns;
    std::vector<double> later(spread + 1);
    double followers = 0;
    for (uint64_t step = 1; step < options.tokens; ++step) {
      for (uint64_t head = 0; head < 16; ++head) {
        for (const uint32_t position : decoded.entered(step, head)) {
          if (!script.milestones()[position]) continue;
          const bool is_of_it = first.contains(position) && step - first[position] <= 100;
          if (!is_of_it) {
            first[position] = step;
            ++returns[position];
          }
          ASSERT_LE(step - first[position], spread);
          ++later[step - first[position]];
          followers += is_of_it ? 1 : 0;
        }
      }
    }
    ASSERT_GT(followers, 2'000);
    for (const auto& [position, step] : first) later[0] -= returns[position];
    for (const double each : later) {
      EXPECT_NEAR(each / followers, 1.0 / static_cast<double>(spread + 1), 0.04) << spread;
    }
  }
}

// WakeKV: what is foretold by a marker comes within 8 steps with 0.20, within 32 with 0.48. As many
// marks as half of all stand elsewhere here.
TEST(Wakes, MarksForetellBurstsAboutAsMarkersDo) {
  DecodeOptions options;
  options.tokens = 200'000;
  const Script script(options);
  Features features(options, script);
  double marks = 0;
  double within_8 = 0;
  double within_32 = 0;
  for (uint64_t step = 0; step + 33 < options.tokens; ++step) {
    if (features.of(step).mark == prefetch::Mark::kNone) continue;
    const auto next = std::ranges::lower_bound(script.burst_steps(), step);
    ++marks;
    within_8 += next != script.burst_steps().end() && *next <= step + 8 ? 1 : 0;
    within_32 += next != script.burst_steps().end() && *next <= step + 32 ? 1 : 0;
  }
  EXPECT_NEAR(within_8 / marks, 0.20, 0.05);
  EXPECT_NEAR(within_32 / marks, 0.48, 0.10);
  RecordProperty("within_8", std::to_string(within_8 / marks));
  RecordProperty("within_32", std::to_string(within_32 / marks));
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
    options.burst_steps = 0.02;
    const Scheduled scheduled(options);
    // Of those that are not moved, a fiftieth is there by chance.
    EXPECT_NEAR(scheduled.share(), share + (1 - share) * 0.02, 0.015);
    EXPECT_NEAR(scheduled.quantile(0.5), 50, 6);
    EXPECT_NEAR(scheduled.quantile(0.8413), 50 * std::exp(1.49), 25);
    EXPECT_GE(scheduled.gaps.front(), 1);
  }
}

TEST(Wakes, PhoenixesTakeTheirShareOfWhatComesBack) {
  DecodeOptions options = quiet();
  options.prompt_tokens = 32'000;  // of which enough sleeps at any time
  options.tokens = 10'000;
  options.sleepers_return = 0.6;
  options.copied_least = options.copied_most = 0;
  for (const double phoenix : {0.1, 0.4}) {
    options.phoenix = phoenix;
    const Decoded decoded(options);
    double all = 0;
    double of_prompt = 0;
    for (uint64_t step = 1'000; step < options.tokens; ++step) {
      for (uint64_t head = 0; head < 16; ++head) {
        for (const uint32_t position : decoded.entered(step, head)) {
          ++all;
          of_prompt += position < 2'000 ? 1 : 0;
        }
      }
    }
    ASSERT_GT(all, 1'500);
    EXPECT_NEAR(of_prompt / all, phoenix, 0.03);
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
