#include "prefetch/milestones/ftrl.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

TEST(Ftrl, KnowsNothingAtFirst) {
  const Ftrl ftrl(10, {});
  EXPECT_FLOAT_EQ(ftrl.probability(ftrl.places(std::array<uint32_t, 2>{1, 2})), 0.5F);
}
TEST(Ftrl, TakesTheStepsOfItsAlgorithm) {
  // By hand, of the paper's algorithm 1 with α 0.5, β 1, λ1 0.1, λ2 2: p = 0.5, g = −0.5, σ = 1,
  // z = −0.5, n = 0.25, w = 0.4 / (1.5 / 0.5 + 2) = 0.08.
  Ftrl ftrl(10, {0.5F, 1, 0.1F, 2});
  const auto feature = ftrl.places(std::array<uint32_t, 1>{7});
  ftrl.learn(feature, true);
  EXPECT_NEAR(ftrl.probability(feature), 1 / (1 + std::exp(-0.08)), 1e-6);
  // p = 0.519989, g = 0.519989, n = 0.520389, σ = (0.721380 − 0.5) / 0.5 = 0.442759,
  // z = −0.5 + 0.519989 − 0.442759 · 0.08 = −0.015432, which is within λ1.
  ftrl.learn(feature, false);
  EXPECT_FLOAT_EQ(ftrl.probability(feature), 0.5F);
}
TEST(Ftrl, LearnsARateThatItsFeaturesTell) {
  // Two features that come with 0.9 and 0.2, one that tells nothing.
  Ftrl ftrl(16, {});
  Random random(1);
  for (int i = 0; i < 40'000; ++i) {
    const auto kind = static_cast<uint32_t>(random.below(2));
    const auto noise = static_cast<uint32_t>(random.below(8));
    ftrl.learn(ftrl.places(std::array<uint32_t, 3>{1, 10 + kind, 20 + noise}),
               random.unit() < (kind == 0 ? 0.9 : 0.2));
  }
  for (uint32_t noise = 0; noise < 8; ++noise) {
    EXPECT_NEAR(ftrl.probability(ftrl.places(std::array<uint32_t, 3>{1, 10, 20 + noise})), 0.9,
                0.05);
    EXPECT_NEAR(ftrl.probability(ftrl.places(std::array<uint32_t, 3>{1, 11, 20 + noise})), 0.2,
                0.05);
  }
}
TEST(Ftrl, ComesBackFromWhatItWasSureOf) {
  Ftrl ftrl(10, {});
  const auto feature = ftrl.places(std::array<uint32_t, 1>{3});
  for (int i = 0; i < 100'000; ++i) ftrl.learn(feature, true);
  EXPECT_GT(ftrl.probability(feature), 0.99F);
  for (int i = 0; i < 100'000; ++i) ftrl.learn(feature, false);
  EXPECT_LT(ftrl.probability(feature), 0.5F);
}

}  // namespace
}  // namespace farpage::prefetch
