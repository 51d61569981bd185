#include "chaos/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace farpage::chaos {
namespace {

Plan plan_of(uint64_t actions) {
  Plan plan;
  for (uint64_t key = 0; key < actions; ++key) plan.actions.push_back({key, PutPages{0, {key}, 1}});
  return plan;
}

bool has(const Plan& plan, uint64_t key) {
  return std::ranges::any_of(plan.actions, [key](const Action& action) {
    return std::get<PutPages>(action.what).keys[0] == key;
  });
}

TEST(Shrink, OnlyWhatFailureNeedsIsLeftInItsOrder) {
  for (const auto& pair : std::vector<std::pair<uint64_t, uint64_t>>{{0, 99}, {41, 42}}) {
    const uint64_t first = pair.first;
    const uint64_t second = pair.second;
    const auto fails = [&](const Plan& plan) { return has(plan, first) && has(plan, second); };
    const Plan shortest = shrink(plan_of(100), fails, 10'000);
    ASSERT_EQ(shortest.actions.size(), 2u);
    EXPECT_EQ(shortest.actions[0].at_ns, first);
    EXPECT_EQ(shortest.actions[1].at_ns, second);
  }
}

TEST(Shrink, WhatAlwaysFailsNeedsNothing) {
  EXPECT_TRUE(shrink(
                  plan_of(7), [](const Plan&) { return true; }, 100)
                  .actions.empty());
}

TEST(Shrink, EndsWithTheRunsItIsGiven) {
  size_t runs = 0;
  const auto fails = [&](const Plan&) { return ++runs % 3 == 0; };
  shrink(plan_of(1000), fails, 50);
  EXPECT_LE(runs, 50u);
}

}  // namespace
}  // namespace farpage::chaos
