#include "prefetch/resident_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

TEST(ResidentSet, NeverHoldsMoreThanItIsTold) {
  const auto policy = fifo().make({}, {});
  ResidentSet pages(*policy);
  EXPECT_EQ(pages.insert_within(2, 7, 0), std::nullopt);
  EXPECT_EQ(pages.insert_within(2, 8, 1), std::nullopt);
  EXPECT_EQ(pages.insert_within(2, 9, 2), 7u);
  EXPECT_EQ(pages.size(), 2u);
  EXPECT_FALSE(pages.contains(7));
  EXPECT_TRUE(pages.contains(8));
  EXPECT_TRUE(pages.contains(9));
}
TEST(ResidentSet, WithoutABudgetNothingComes) {
  const auto policy = fifo().make({}, {});
  ResidentSet pages(*policy);
  EXPECT_EQ(pages.insert_within(0, 7, 0), std::nullopt);
  EXPECT_FALSE(pages.contains(7));
}
TEST(ResidentSet, ThePolicyKnowsWhatWasInsertedAndRemoved) {
  const auto policy = fifo().make({}, {});
  ResidentSet pages(*policy);
  for (PageNumber page = 1; page <= 3; ++page) pages.insert(page, 0);
  pages.remove(1, 1);
  EXPECT_EQ(pages.size(), 2u);
  EXPECT_EQ(policy->victim(2), 2u);
  EXPECT_EQ(pages.insert_within(2, 4, 2), 2u);
}

}  // namespace
}  // namespace farpage::prefetch
