#include "prefetch/importance/window_importance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>

namespace farpage::prefetch {
namespace {

WindowOptions options_of(uint64_t blocks, uint64_t steps, double top_share) {
  return {.blocks = blocks, .steps = steps, .top_share = top_share, .step_blocks = blocks};
}

WindowImportance made(const WindowOptions& options) {
  auto importance = WindowImportance::make(options);
  EXPECT_TRUE(importance.has_value());
  return std::move(*importance);
}

TEST(WindowImportance, IsTheShareOfStepsAtTheTop) {
  WindowImportance importance = made(options_of(4, 4, 0.5));
  for (int step = 0; step < 2; ++step) {
    for (uint32_t block = 0; block < 4; ++block) {
      importance.add(block, 0.1F * static_cast<float>(block + 1));
    }
    EXPECT_EQ(importance.importance(3), 0.25F * static_cast<float>(step));  // as the step goes on
    importance.end_step();
  }
  EXPECT_EQ(importance.importance(3), 0.5F);
  EXPECT_EQ(importance.importance(2), 0.5F);
  EXPECT_EQ(importance.importance(1), 0);
  EXPECT_EQ(importance.importance(4), 0);
}
TEST(WindowImportance, ForgetsStepsThatHaveLeftTheWindow) {
  WindowImportance importance = made(options_of(2, 2, 0.5));
  const auto step = [&](uint32_t best) {
    importance.add(best, 0.9F);
    importance.add(1 - best, 0.1F);
    importance.end_step();
  };
  step(0);
  step(0);
  EXPECT_EQ(importance.importance(0), 1);
  step(1);
  EXPECT_EQ(importance.importance(0), 0.5F);
  step(1);
  EXPECT_EQ(importance.importance(0), 0);
  EXPECT_EQ(importance.importance(1), 1);
  importance.end_step();  // without any
  EXPECT_EQ(importance.importance(1), 0.5F);
}
TEST(WindowImportance, WhatIsNoShareNoBlockOrOneTooManyIsLeftOut) {
  WindowImportance importance = made({.blocks = 8, .steps = 2, .top_share = 1, .step_blocks = 2});
  importance.add(8, 0.5F);
  importance.add(0, std::nanf(""));
  importance.add(0, 2);
  importance.add(0, 0.5F);
  importance.add(1, 0.5F);
  EXPECT_EQ(importance.left_out(), 3u);
  importance.add(2, 0.9F);
  EXPECT_EQ(importance.left_out(), 4u);
  importance.end_step();
  EXPECT_EQ(importance.importance(2), 0);
  EXPECT_EQ(importance.importance(1), 0.5F);
}
TEST(WindowImportance, ReadersSeeWholeValuesWhileItIsFed) {
  // 0 is at the top of each step, 1 of none, and 2 of every other one of the last four.
  WindowImportance importance = made({.blocks = 3, .steps = 4, .top_share = 0.5, .step_blocks = 2});
  const auto step = [&](uint64_t number) {
    importance.add(0, 0.9F);
    importance.add(1, 0.1F);
    importance.end_step();
    importance.add(number % 2 == 0 ? 0 : 2, 0.9F);
    importance.end_step();
  };
  for (uint64_t i = 0; i < 8; ++i) step(i);
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> reads = 0;
  std::jthread reader([&] {
    for (; !is_over; ++reads) {
      EXPECT_GE(importance.importance(0), 0.5F);
      EXPECT_LE(importance.importance(0), 1.0F);
      EXPECT_EQ(importance.importance(1), 0);
      EXPECT_LE(importance.importance(2), 0.5F);
    }
  });
  while (reads == 0) std::this_thread::yield();
  for (uint64_t i = 0; i < 20'000; ++i) step(i);
  is_over = true;
}
TEST(WindowImportance, ItsMemoryIsKnown) {
  const WindowImportance importance =
      made({.blocks = 1'000, .steps = 16, .top_share = 0.1, .step_blocks = 200});
  EXPECT_EQ(importance.bytes_used(), 1'000u * 4 + 16 * 20 * 4 + 200 * 8);
}
TEST(WindowImportance, OptionsThatCannotBeAreRefused) {
  for (const WindowOptions& options :
       {options_of(0, 16, 0.1), options_of(1, 0, 0.1), options_of(1, 2'000, 0.1),
        options_of(1, 16, 0), options_of(1, 16, 1.5), options_of(1, 16, std::nan(""))}) {
    EXPECT_FALSE(WindowImportance::make(options).has_value());
  }
}

}  // namespace
}  // namespace farpage::prefetch
