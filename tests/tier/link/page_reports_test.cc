#include "tier/link/page_reports.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kNow = 5 * kSecond;

TEST(PageReports, KeyPassesOnceASecond) {
  PageReports reports;
  EXPECT_TRUE(reports.add(test_key(1), kNow));
  EXPECT_FALSE(reports.add(test_key(1), kNow));
  EXPECT_FALSE(reports.add(test_key(1), kNow + 999 * kMillisecond));
  EXPECT_EQ(reports.take(), std::vector<PageKey>{test_key(1)});
  EXPECT_FALSE(reports.add(test_key(1), kNow + 999 * kMillisecond));
  EXPECT_TRUE(reports.add(test_key(1), kNow + kSecond));
  EXPECT_EQ(reports.take(), std::vector<PageKey>{test_key(1)});
  EXPECT_TRUE(reports.take().empty());
}

TEST(PageReports, DistinctKeysAllPassUpToTheLimitAndNoMoreWithinASecond) {
  PageReports reports;
  for (uint64_t i = 0; i < PageReports::kMostKeys; ++i) {
    EXPECT_TRUE(reports.add(test_key(i), kNow + i * kMillisecond)) << i;
  }
  EXPECT_EQ(reports.take().size(), PageReports::kMostKeys);
  for (uint64_t i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(reports.add(test_key(1000 + i), kNow + 999 * kMillisecond)) << i;
  }
  // One place becomes free each millisecond.
  EXPECT_TRUE(reports.add(test_key(20'001), kNow + kSecond));
  EXPECT_FALSE(reports.add(test_key(20'002), kNow + kSecond));
  EXPECT_TRUE(reports.add(test_key(20'002), kNow + kSecond + kMillisecond));
}

TEST(PageReports, WhatNobodyTakesIsNotReplaced) {
  PageReports reports;
  for (uint64_t i = 0; i < PageReports::kMostKeys; ++i) reports.add(test_key(i), kNow);
  EXPECT_FALSE(reports.add(test_key(1000), kNow + 10 * kSecond));
  EXPECT_EQ(reports.take().size(), PageReports::kMostKeys);
  EXPECT_TRUE(reports.add(test_key(1000), kNow + 20 * kSecond));
}

TEST(PageReports, OfManyThreadsEachKeyPassesOnce) {
  PageReports reports;
  constexpr uint64_t kKeys = 64;
  std::atomic<uint64_t> passed = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kKeys * 100; ++i) passed += reports.add(test_key(i % kKeys), kNow);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(passed, kKeys);
  EXPECT_EQ(reports.take().size(), kKeys);
}

}  // namespace
}  // namespace farpage
