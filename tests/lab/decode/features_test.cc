#include "lab/decode/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/lab/decode/decoded.h"

namespace farpage::decode {
namespace {

using prefetch::Mark;

constexpr uint64_t kSteps = 60'000;

// An engine's notes on the steps, and the truth.
struct Told {
  explicit Told(double informativeness) : options(options_with(informativeness)), script(options) {
    Features features(options, script);
    for (uint64_t step = 0; step < kSteps; ++step) tokens.push_back(features.of(step));
  }
  static DecodeOptions options_with(double informativeness) {
    DecodeOptions options;
    options.tokens = kSteps;
    options.informativeness = informativeness;
    return options;
  }

  // How likely it is that a step of the one kind has less of it than a step of the other.
  template <typename Value, typename IsOne>
  double separation(Value value, IsOne is_one) const {
    std::vector<std::pair<float, bool>> ranked;
    for (uint64_t step = 0; step < kSteps; ++step)
      ranked.push_back({value(tokens[step]), is_one(step)});
    std::ranges::sort(ranked);
    double ones = 0;
    double others = 0;
    double won = 0;
    for (const auto& [unused, one] : ranked) {
      if (one) {
        ++ones;
      } else {
        ++others;
        won += ones;
      }
    }
    return won / (ones * others);
  }
  double by_entropy() const {
    return separation([](const TokenFeatures& token) { return token.entropy; }, is_milestone());
  }
  double by_margin() const {
    return separation([](const TokenFeatures& token) { return -token.margin; }, is_milestone());
  }
  std::function<bool(uint64_t)> is_milestone() const {
    return [this](uint64_t step) { return script.milestones()[script.position_of(step)]; };
  }
  size_t marks() const {
    return static_cast<size_t>(std::ranges::count_if(
        tokens, [](const TokenFeatures& token) { return token.mark != Mark::kNone; }));
  }
  // Of the marks: at the beginning of a segment, and with its phase.
  double true_marks() const {
    double found = 0;
    for (const Segment& segment : script.segments()) {
      const auto expected = static_cast<Mark>(2 + static_cast<int>(segment.phase));
      found += tokens[segment.begin_step].mark == expected ? 1 : 0;
    }
    return found / static_cast<double>(script.segments().size());
  }

  const DecodeOptions options;
  const Script script;
  std::vector<TokenFeatures> tokens;
};

TEST(Features, AtOneTheyTellAll) {
  const Told told(1);
  EXPECT_EQ(told.by_entropy(), 1);
  EXPECT_EQ(told.by_margin(), 1);
  EXPECT_EQ(told.true_marks(), 1);
  EXPECT_EQ(told.marks(), told.script.segments().size());
}

TEST(Features, BetweenTheyTellSome) {
  double before = 0.56;
  for (const double informativeness : {0.25, 0.5, 0.75}) {
    const Told told(informativeness);
    EXPECT_NEAR(told.by_entropy(), 0.5 + informativeness / 2, 0.06);
    EXPECT_NEAR(told.by_margin(), 0.5 + informativeness / 2, 0.06);
    EXPECT_GT(told.by_entropy(), before);
    before = told.by_entropy();
    EXPECT_EQ(told.marks(), told.script.segments().size());
    // In its place, and of its phase, which a draw hits at times as well.
    const double phase = informativeness + (1 - informativeness) * 0.46;
    EXPECT_NEAR(told.true_marks(), informativeness * phase, 0.06);
  }
}

// Pages of sixteen tokens are told alike: some 3,700 draws, of which 200 are milestones.
TEST(Features, AtZeroTheyTellNothingOfMilestones) {
  const Told told(0);
  EXPECT_NEAR(told.by_entropy(), 0.5, 0.05);
  EXPECT_NEAR(told.by_margin(), 0.5, 0.05);
}

TEST(Features, AtZeroTheyTellNothingOfSegmentsAndPhases) {
  const Told told(0);
  const auto entropy = [](const TokenFeatures& token) { return token.entropy; };
  const auto mark = [](const TokenFeatures& token) { return static_cast<float>(token.mark); };
  const auto begins = [&](uint64_t step) { return told.script.begins_segment(step); };
  const auto begins_soon = [&](uint64_t step) {
    return told.script.segments().back().begin_step > step + 16 &&
           told.script.phase_at(step) != told.script.phase_at(step + 16);
  };
  EXPECT_NEAR(told.separation(entropy, begins), 0.5, 0.05);
  EXPECT_NEAR(told.separation(entropy, begins_soon), 0.5, 0.03);
  for (const Phase phase : {Phase::kExplore, Phase::kVerify, Phase::kConclude}) {
    const auto is_in = [&](uint64_t step) { return told.script.phase_at(step) == phase; };
    EXPECT_NEAR(told.separation(entropy, is_in), 0.5, 0.03);
  }
  EXPECT_EQ(told.marks(), told.script.segments().size());
  const auto count = static_cast<double>(told.marks());
  double at_beginnings = 0;
  double before_redraws = 0;
  double of_milestones = 0;
  double agreeing = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (told.tokens[step].mark == Mark::kNone) continue;
    at_beginnings += begins(step) ? 1 : 0;
    bool is_before = false;
    for (uint64_t later = 0; later <= 8; ++later) is_before |= told.script.redraws(step + later);
    before_redraws += is_before ? 1 : 0;
    of_milestones += told.is_milestone()(step) ? 1 : 0;
    const auto phase = static_cast<int>(told.script.phase_at(step));
    agreeing += mark(told.tokens[step]) == static_cast<float>(2 + phase) ? 1 : 0;
  }
  const auto pages = static_cast<double>(std::ranges::count(told.script.milestones(), true));
  // By chance: a step in a hundred begins a segment; phases agree as the squares of their shares.
  const auto expect_chance = [&](double found, double share) {
    EXPECT_NEAR(found / count, share, 4 * std::sqrt(share * (1 - share) / count));
  };
  expect_chance(at_beginnings, count / kSteps);
  expect_chance(before_redraws, 9 * count / kSteps);
  expect_chance(of_milestones, pages * 16 / kSteps);
  expect_chance(agreeing, 0.6 * 0.6 + 0.3 * 0.3 + 0.1 * 0.1);
}

TEST(Features, DoNotChangeWhatIsRead) {
  DecodeOptions options;
  options.tokens = 1'000;
  options.informativeness = 0;
  const Decoded none(options);
  options.informativeness = 1;
  const Decoded all(options);
  EXPECT_EQ(none.read, all.read);
}

TEST(Features, AreTheSameForAllAccessesOfAStep) {
  DecodeOptions options;
  options.tokens = 50;
  DecodeGenerator generator(options);
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < 50; ++step) {
    accesses.clear();
    generator.step(accesses);
    for (const prefetch::Access& access : accesses) {
      EXPECT_EQ(access.entropy, accesses[0].entropy);
      EXPECT_EQ(access.margin, accesses[0].margin);
      EXPECT_EQ(access.mark, accesses[0].mark);
    }
  }
}

TEST(Features, NormalDecodeHasNoMarksAndIsNeverSure) {
  DecodeOptions options = *preset("normal");
  const Script script(options);
  Features features(options, script);
  for (uint64_t step = 0; step < options.tokens; ++step) {
    const TokenFeatures token = features.of(step);
    EXPECT_EQ(token.mark, Mark::kNone);
    EXPECT_GT(token.entropy, 0.5F);
    EXPECT_LT(token.margin, 5.5F);
  }
}

}  // namespace
}  // namespace farpage::decode
