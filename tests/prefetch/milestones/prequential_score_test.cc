#include "prefetch/milestones/prequential_score.h"

#include <gtest/gtest.h>

namespace farpage::prefetch {
namespace {

TEST(PrequentialScore, OfNothingIsNothing) {
  const PrequentialScore score;
  EXPECT_EQ(score.samples(), 0U);
  EXPECT_EQ(score.base_rate(), 0);
  EXPECT_EQ(score.pr_auc(), 0);
  EXPECT_EQ(score.calibration_error(), 0);
}
TEST(PrequentialScore, IsTheAreaUnderPrecisionAndRecall) {
  // In the order of what was foretold: came, not, came, not. Precision where one came: 1, 2/3.
  PrequentialScore score;
  score.add(0.9F, true);
  score.add(0.8F, false);
  score.add(0.7F, true);
  score.add(0.1F, false);
  EXPECT_DOUBLE_EQ(score.base_rate(), 0.5);
  EXPECT_DOUBLE_EQ(score.pr_auc(), (1 + 2.0 / 3) / 2);
}
TEST(PrequentialScore, OfWhoSaysTheSameOfAllIsTheBaseRate) {
  PrequentialScore score;
  for (int i = 0; i < 100; ++i) score.add(0.5F, i < 20);
  EXPECT_DOUBLE_EQ(score.pr_auc(), 0.2);
  EXPECT_NEAR(score.calibration_error(), 0.3, 1e-9);
}
TEST(PrequentialScore, IsCalibratedWhereWhatWasForetoldComesAsOften) {
  PrequentialScore score;
  for (int i = 0; i < 100; ++i) score.add(0.25F, i % 4 == 0);
  for (int i = 0; i < 100; ++i) score.add(0.75F, i % 4 != 0);
  EXPECT_NEAR(score.calibration_error(), 0, 1e-9);
}
TEST(PrequentialScore, TakesCertaintiesToo) {
  PrequentialScore score;
  score.add(1, true);
  score.add(0, false);
  EXPECT_DOUBLE_EQ(score.pr_auc(), 1);
  EXPECT_DOUBLE_EQ(score.calibration_error(), 0);
}

}  // namespace
}  // namespace farpage::prefetch
