#include "prefetch/importance/selections.h"

#include <gtest/gtest.h>

#include <vector>

namespace farpage::prefetch {
namespace {

using Pages = std::vector<PageNumber>;

TEST(Overlap, IsWhatGoesBeyondChance) {
  // Three of four are the same, where chance brings one of ten.
  EXPECT_DOUBLE_EQ(overlap_beyond_chance(Pages{0, 1, 2, 3}, Pages{0, 1, 2, 9}, 40),
                   (0.75 - 0.1) / 0.9);
  EXPECT_DOUBLE_EQ(overlap_beyond_chance(Pages{0, 1}, Pages{0, 1}, 4), 1);
  EXPECT_DOUBLE_EQ(overlap_beyond_chance(Pages{0, 1}, Pages{2, 3}, 4), 0);
  EXPECT_DOUBLE_EQ(overlap_beyond_chance(Pages{0, 1}, Pages{1, 2}, 4), 0);
}
TEST(Overlap, OfAllPagesIsWhole) {
  EXPECT_DOUBLE_EQ(overlap_beyond_chance(Pages{0, 1}, Pages{0, 1}, 2), 1);
}

TEST(Selections, AreSteadyUntilSomethingElseIsKnown) {
  Selections selections;
  EXPECT_DOUBLE_EQ(selections.stability(), 1);
  selections.add({0, 1}, 4);
  EXPECT_DOUBLE_EQ(selections.stability(), 1);
  EXPECT_EQ(selections.latest(), (Pages{0, 1}));
}
TEST(Selections, StabilityIsTheMeanOverAllStepsOfThoseOverWhatWasBefore) {
  Selections selections;
  selections.add({0, 1}, 4);
  selections.add({0, 1}, 4);  // 1
  selections.add({2, 3}, 4);  // 0 and 0
  selections.add({0, 1}, 4);  // 0, 1 and 1
  EXPECT_DOUBLE_EQ(selections.stability(), (1 + 0 + 2.0 / 3) / 3);
}
TEST(Selections, AreComparedWithFifteenStepsBefore) {
  Selections selections;
  selections.add({0, 1}, 4);
  for (int i = 0; i < 15; ++i) selections.add({2, 3}, 4);
  // 0 at first, then of one, two and up to fourteen more steps of which all but the first are
  // alike.
  double sum = 0;
  for (int before = 1; before <= 15; ++before) sum += (before - 1.0) / before;
  EXPECT_DOUBLE_EQ(selections.stability(), sum / 15);
  selections.add({2, 3}, 4);  // the first is forgotten
  EXPECT_DOUBLE_EQ(selections.stability(), (sum + 1) / 16);
}

}  // namespace
}  // namespace farpage::prefetch
