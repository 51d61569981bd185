#include "control/request_budget.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

// A client that always asks again as soon as it may.
uint64_t taken_in(uint64_t requests_per_s, uint64_t duration_ns) {
  RequestBudget budget(requests_per_s);
  uint64_t taken = 0;
  for (uint64_t now = kSecond; now < kSecond + duration_ns; ++taken) now += budget.spend(now);
  return taken;
}

TEST(RequestBudget, LetsInSoManyASecondAndATenthOfThatAtOnce) {
  for (const uint64_t rate : {10ul, 1'000ul, 20'000ul, 10'000'000ul}) {
    EXPECT_GE(taken_in(rate, 10 * kSecond), 98 * rate / 10) << rate;
    EXPECT_LE(taken_in(rate, 10 * kSecond), 102 * rate / 10 + 2) << rate;
  }
}

TEST(RequestBudget, BurstIsFreeAndThenThereIsAPause) {
  RequestBudget budget(1'000);
  const uint64_t now = 5 * kSecond;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(budget.spend(now), 0u) << i;
  EXPECT_GT(budget.spend(now), 0u);
  EXPECT_LT(budget.spend(now), 50 * kMillisecond);
  EXPECT_EQ(budget.spend(now + kSecond), 0u) << "time mends it";
}

TEST(RequestBudget, WhoStaysBelowItIsNeverPaused) {
  RequestBudget budget(1'000);
  for (uint64_t i = 0; i < 100'000; ++i) EXPECT_EQ(budget.spend(kSecond + i * kMillisecond), 0u);
}

}  // namespace
}  // namespace farpage
