#include "lab/decode/script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace farpage::decode {
namespace {

DecodeOptions long_output() {
  DecodeOptions options;
  options.tokens = 400'000;
  return options;
}

TEST(Script, SegmentsAreExponentialWithinTheirBounds) {
  const Script script(long_output());
  const auto& segments = script.segments();
  ASSERT_EQ(segments.front().begin_step, 0u);
  double shortest = 0;
  double longest = 0;
  double below_median = 0;
  for (size_t i = 1; i < segments.size(); ++i) {
    const uint64_t tokens = segments[i].begin_step - segments[i - 1].begin_step;
    ASSERT_GE(tokens, 50u);
    ASSERT_LE(tokens, 200u);
    shortest += tokens == 50 ? 1 : 0;
    longest += tokens == 200 ? 1 : 0;
    below_median += tokens <= 69 ? 1 : 0;  // 100 ln 2
  }
  const auto count = static_cast<double>(segments.size() - 1);
  EXPECT_NEAR(shortest / count, 1 - std::exp(-0.505), 0.025);
  EXPECT_NEAR(longest / count, std::exp(-1.995), 0.02);
  EXPECT_NEAR(below_median / count, 0.5, 0.025);
  EXPECT_NEAR(400'000 / count, expected_segment_tokens(DecodeOptions()), 2);
}

TEST(Script, PhasesHaveTheirShares) {
  const Script script(long_output());
  std::array<double, 3> phases = {};
  for (const Segment& segment : script.segments()) ++phases[static_cast<size_t>(segment.phase)];
  const auto count = static_cast<double>(script.segments().size());
  EXPECT_NEAR(phases[0] / count, 0.6, 0.025);
  EXPECT_NEAR(phases[1] / count, 0.3, 0.025);
  EXPECT_NEAR(phases[2] / count, 0.1, 0.015);
}

TEST(Script, MilestonesAreTheLastPagesOfTheirShareOfSegments) {
  for (const double share : {0.0, 0.35, 1.0}) {
    DecodeOptions options = long_output();
    options.milestones = share;
    const Script script(options);
    const auto milestones = static_cast<double>(std::ranges::count(script.milestones(), true));
    EXPECT_NEAR(milestones / static_cast<double>(script.segments().size()), share, 0.025);
    for (uint64_t position = 0; position < script.positions(); ++position) {
      if (!script.milestones()[position]) continue;
      const uint64_t next = *script.segment_of(position) + 1;
      const uint64_t last = script.segments()[next].begin_step - 1;
      ASSERT_EQ(position, (1'024 + last) / 16);
      ASSERT_EQ(script.milestone_after(last), position);
      ASSERT_FALSE(script.milestone_after(last - 1).has_value());
    }
  }
}

TEST(Script, APageIsOfTheSegmentOfItsFirstToken) {
  DecodeOptions options;
  options.prompt_tokens = 20;  // a page and a quarter: the second is of the prompt
  const Script script(options);
  EXPECT_EQ(script.prompt_positions(), 2u);
  EXPECT_FALSE(script.segment_of(1).has_value());
  EXPECT_EQ(script.segment_of(2), 0u);
  const uint64_t second = script.segments()[1].begin_step;
  const uint64_t position = (20 + second + 15) / 16;  // the first that begins in it
  EXPECT_EQ(script.segment_of(position), 1u);
  EXPECT_EQ(script.segment_of(position - 1), 0u);
}

TEST(Script, BurstsAreTheirShareOfTheSteps) {
  DecodeOptions options = long_output();
  options.burst_steps = 0.02;
  const Script script(options);
  EXPECT_NEAR(static_cast<double>(script.burst_steps().size()) / 400'000, 0.02, 0.001);
  // Every redraw is one.
  for (size_t i = 1; i < script.segments().size(); ++i) {
    if (script.segments()[i].redraw_step >= script.steps()) continue;  // cut off
    ASSERT_TRUE(std::ranges::binary_search(script.burst_steps(), script.segments()[i].redraw_step));
  }
}

// Of the segments but the first, whose redraw is told and not done.
TEST(Script, ASegmentRedrawsOnceAndWithinIt) {
  const Script script(long_output());
  const auto& segments = script.segments();
  EXPECT_FALSE(script.redraws(segments[0].redraw_step));
  for (size_t i = 1; i + 1 < segments.size(); ++i) {
    ASSERT_GE(segments[i].redraw_step, segments[i].begin_step);
    ASSERT_LT(segments[i].redraw_step, segments[i + 1].begin_step);
    ASSERT_TRUE(script.redraws(segments[i].redraw_step));
    ASSERT_FALSE(script.redraws(segments[i].redraw_step + 1) &&
                 segments[i + 1].redraw_step != segments[i].redraw_step + 1);
  }
}

// Shares of an exponential distribution, in whole steps from 0.
TEST(Script, ARedrawFollowsItsMarkAfterTheLagThatIsDrawn) {
  for (const double lag : {5.0, 20.0}) {
    DecodeOptions options = long_output();
    options.redraw_lag_steps = lag;
    const Script script(options);
    double within_8 = 0;
    double within_32 = 0;
    for (const Segment& segment : script.segments()) {
      const uint64_t steps = segment.redraw_step - segment.begin_step;
      within_8 += steps <= 8 ? 1 : 0;
      within_32 += steps <= 32 ? 1 : 0;
    }
    const auto count = static_cast<double>(script.segments().size());
    EXPECT_NEAR(within_8 / count, 1 - std::exp(-9 / lag), 0.03);
    EXPECT_NEAR(within_32 / count, 1 - std::exp(-33 / lag), 0.03);
  }
  DecodeOptions options = long_output();
  options.redraw_lag_steps = 0;
  const Script at_once(options);
  for (const Segment& segment : at_once.segments()) {
    ASSERT_EQ(segment.redraw_step, segment.begin_step);
  }
}

TEST(Script, NormalDecodeHasNothingOfIt) {
  DecodeOptions options = *preset("normal");
  options.tokens = 10'000;
  const Script script(options);
  EXPECT_TRUE(script.segments().empty());
  EXPECT_TRUE(script.burst_steps().empty());
  EXPECT_EQ(std::ranges::count(script.milestones(), true), 0);
  EXPECT_FALSE(script.begins_segment(0));
  EXPECT_FALSE(script.segment_of(100).has_value());
}

TEST(Script, WithoutTokensTheirNumberIsDrawn) {
  std::vector<uint64_t> lengths;
  for (uint64_t seed = 0; seed < 999; ++seed) {
    DecodeOptions options;
    options.tokens = 0;
    options.seed = seed;
    lengths.push_back(Script(options).steps());
  }
  std::ranges::sort(lengths);
  EXPECT_NEAR(static_cast<double>(lengths[499]), 1'014, 150);
  EXPECT_NEAR(static_cast<double>(lengths[899]), 5'423, 900);
}

}  // namespace
}  // namespace farpage::decode
