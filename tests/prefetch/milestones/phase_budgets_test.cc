#include "prefetch/milestones/phase_budgets.h"

#include <gtest/gtest.h>

#include <array>

namespace farpage::prefetch {
namespace {

TEST(PhaseBudgets, EachPhaseHasItsShareAndNoPhaseAll) {
  const PhaseBudgets budgets(std::array{0.25, 1.0, 0.0});
  EXPECT_EQ(budgets.most(Mark::kExplores, 200), 50u);
  EXPECT_EQ(budgets.most(Mark::kVerifies, 200), 200u);
  EXPECT_EQ(budgets.most(Mark::kConcludes, 200), 0u);
  EXPECT_EQ(budgets.most(Mark::kNone, 200), 200u);
  EXPECT_EQ(budgets.most(Mark::kBegins, 200), 200u);
}
TEST(PhaseBudgets, AShareIsAPageAtLeast) {
  const PhaseBudgets budgets(std::array{0.001, 0.5, 0.5});
  EXPECT_EQ(budgets.most(Mark::kExplores, 200), 1u);
  EXPECT_EQ(budgets.most(Mark::kVerifies, 3), 2u);
  EXPECT_EQ(budgets.most(Mark::kVerifies, 0), 0u);
}
TEST(PhaseBudgets, ByThemselvesTheyAreWhole) {
  for (const Parameter& parameter : PhaseBudgets::parameters()) {
    EXPECT_EQ(parameter.unset, 1) << parameter.name;
  }
}

}  // namespace
}  // namespace farpage::prefetch
