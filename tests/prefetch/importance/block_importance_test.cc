#include "prefetch/importance/block_importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

ImportanceOptions options_of(uint64_t blocks, double alpha = 0.1) {
  ImportanceOptions options;
  options.blocks = blocks;
  options.alpha = alpha;
  return options;
}

BlockImportance made(const ImportanceOptions& options) {
  auto importance = BlockImportance::make(options);
  EXPECT_TRUE(importance.has_value());
  return std::move(*importance);
}

TEST(BlockImportance, IsAMovingAverageOverSteps) {
  BlockImportance importance = made(options_of(2));
  EXPECT_EQ(importance.importance(0), 0);
  importance.add(0, 0.5F);
  EXPECT_NEAR(importance.importance(0), 0.05, 0.05 * 1e-3);
  importance.end_step();
  EXPECT_NEAR(importance.importance(0), 0.05 * 0.9, 0.05 * 1e-3);
  importance.add(0, 0.2F);
  EXPECT_NEAR(importance.importance(0), 0.05 * 0.9 + 0.02, 0.065 * 1e-3);
  EXPECT_EQ(importance.importance(1), 0);
}
TEST(BlockImportance, AddsWhatHeadsGiveABlockInAStep) {
  BlockImportance importance = made(options_of(1, 0.5));
  importance.add(0, 0.25F);
  importance.add(0, 0.5F);
  EXPECT_NEAR(importance.importance(0), 0.375, 1e-3);
  for (int i = 0; i < 10; ++i) importance.add(0, 1);
  EXPECT_LE(importance.importance(0), 1);
}
TEST(BlockImportance, IsThatOfDoublesAfterAMillionSteps) {
  constexpr uint32_t kBlocks = 40;
  for (const double alpha : {0.05, 0.3}) {
    SCOPED_TRACE(alpha);
    BlockImportance importance = made(options_of(kBlocks, alpha));
    std::vector<double> model(kBlocks);
    Random random(7);
    for (uint64_t step = 0; step < 1'000'000; ++step) {
      for (double& each : model) each *= 1 - alpha;
      // Some blocks are left alone for tens of thousands of steps.
      const auto block = static_cast<uint32_t>(random.below(step % 100'000 < 30'000 ? 4 : kBlocks));
      const auto mass = static_cast<float>(random.below(1'000)) / 1'000;
      model[block] += alpha * static_cast<double>(mass);
      importance.add(block, mass);
      if (step % 1'009 == 0) {
        for (uint32_t each = 0; each < kBlocks; ++each) {
          ASSERT_NEAR(importance.importance(each), model[each], model[each] * 0.01 + 1e-9)
              << "step " << step << " block " << each;
        }
      }
      importance.end_step();
    }
  }
}
TEST(BlockImportance, WhatIsLeftAloneIsNothingAtAnyTimeAfterwards) {
  // Beyond the steps that an entry can tell apart.
  BlockImportance importance = made(options_of(3));
  importance.add(1, 1);
  for (uint64_t step = 0; step < 200'000; ++step) {
    importance.end_step();
    if (step <= 1'100) continue;
    ASSERT_EQ(importance.importance(1), 0) << step;
  }
}
TEST(BlockImportance, WhatIsNoShareOrNoBlockIsLeftOutAndCounted) {
  BlockImportance importance = made(options_of(2));
  importance.add(0, std::numeric_limits<float>::quiet_NaN());
  importance.add(0, std::numeric_limits<float>::infinity());
  importance.add(0, -0.1F);
  importance.add(0, 1.1F);
  importance.add(2, 0.5F);
  EXPECT_EQ(importance.left_out(), 5u);
  EXPECT_EQ(importance.importance(0), 0);
  EXPECT_EQ(importance.importance(2), 0);
}
TEST(BlockImportance, NumberOfAnotherBlockKeepsNothing) {
  BlockImportance importance = made(options_of(2));
  importance.add(0, 1);
  importance.add(1, 1);
  importance.forget(0);
  importance.forget(2);  // which is none
  EXPECT_EQ(importance.importance(0), 0);
  EXPECT_GT(importance.importance(1), 0);
}

TEST(BlockImportance, SinksOfEachLayerArePinnedAndWhatIsAboveUntilItHasDecayed) {
  ImportanceOptions options = options_of(8, 0.5);
  options.layers = 2;
  options.pin_above = 0.3;
  BlockImportance importance = made(options);
  importance.add(2, 0.8F);
  for (const uint32_t block : {0U, 2U, 4U}) EXPECT_TRUE(importance.is_pinned(block)) << block;
  for (const uint32_t block : {1U, 3U, 5U, 8U}) EXPECT_FALSE(importance.is_pinned(block)) << block;
  importance.end_step();
  EXPECT_FALSE(importance.is_pinned(2));  // 0.2
}
TEST(BlockImportance, AMillionTokensOfThirtyTwoLayersTake8400Kilobytes) {
  ImportanceOptions options = options_of(uint64_t{1 << 20} / 16 * 32);
  options.layers = 32;
  EXPECT_LE(made(options).bytes_used(), 8'400'000u);
}
TEST(BlockImportance, OptionsThatCannotBeAreRefused) {
  for (const auto& [blocks, alpha] : {std::pair(uint64_t{0}, 0.1),
                                      {uint64_t{1} << 32, 0.1},
                                      {uint64_t{1}, 0.01},
                                      {uint64_t{1}, 0.6},
                                      {uint64_t{1}, std::nan("")}}) {
    EXPECT_FALSE(BlockImportance::make(options_of(blocks, alpha)).has_value());
  }
  ImportanceOptions options = options_of(10);
  options.layers = 3;
  EXPECT_FALSE(options.validate().has_value());
  options = options_of(10);
  options.pin_above = -1;
  EXPECT_FALSE(options.validate().has_value());
}
TEST(BlockImportance, ReadersSeeWholeValuesWhileItIsFed) {
  // Of a block that gets 1 in each step, the average never falls; of one that never gets any, it is
  // 0.
  BlockImportance importance = made(options_of(2, 0.5));
  for (int i = 0; i < 40; ++i) {
    importance.add(0, 1);
    importance.end_step();
  }
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> reads = 0;
  std::jthread reader([&] {
    for (; !is_over; ++reads) {
      const float value = importance.importance(0);
      EXPECT_GE(value, 0.49F);
      EXPECT_LE(value, 1.0F);
      EXPECT_EQ(importance.importance(1), 0);
    }
  });
  while (reads == 0) std::this_thread::yield();
  const uint64_t before = reads;
  // At least so many, and until it has been read meanwhile.
  for (int i = 0; i < 20'000 || (reads == before && i < 30'000); ++i) {
    importance.add(0, 1);
    importance.end_step();
  }
  is_over = true;
}

}  // namespace
}  // namespace farpage::prefetch
