#include "node/clients/memory_budget.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "node/clients/client_budget.h"
#include "tests/support/seeds.h"

namespace farpage {
namespace {

using Grant = MemoryBudget::Grant;

TEST(MemoryBudget, GrantsNoMoreThanThereIs) {
  const auto budget = MemoryBudget::make("a", 100);
  auto first = budget->take(60);
  ASSERT_TRUE(first);
  EXPECT_FALSE(budget->take(41));
  EXPECT_FALSE(budget->take(UINT64_MAX));
  auto last = budget->take(40);
  EXPECT_TRUE(last);
  EXPECT_EQ(budget->granted_bytes(), 100u);
  EXPECT_EQ(budget->refused(), 2u);
  first.reset();
  EXPECT_EQ(budget->granted_bytes(), 40u);
}

TEST(MemoryBudget, AGrantIsGivenBackOnceWhereverItWent) {
  const auto budget = MemoryBudget::make("a", 100);
  {
    Grant grant = std::move(*budget->take(10));
    Grant other = std::move(grant);
    EXPECT_EQ(grant.bytes(), 0u);
    EXPECT_EQ(other.bytes(), 10u);
    grant = std::move(*budget->take(20));
    other = std::move(grant);
    EXPECT_LE(budget->granted_bytes(), 30u);
    EXPECT_EQ(other.bytes(), 20u);
  }
  EXPECT_EQ(budget->granted_bytes(), 0u);
}

TEST(MemoryBudget, AGrantKeepsItsBudget) {
  auto budget = MemoryBudget::make("a", 100, MemoryBudget::make("whole", 100));
  auto grant = budget->take(10);
  budget.reset();
  EXPECT_TRUE(grant);
}

TEST(MemoryBudget, WhatDoesNotFitTheWholeLeavesNothingInThePart) {
  const auto whole = MemoryBudget::make("whole", 100);
  const auto part = MemoryBudget::make("part", 80, whole);
  const auto other = MemoryBudget::make("other", 80, whole);
  const auto grant = part->take(80);
  EXPECT_FALSE(other->take(21));
  EXPECT_EQ(other->granted_bytes(), 0u);
  EXPECT_EQ(whole->granted_bytes(), 80u);
  EXPECT_TRUE(other->take(20));
}

// With any grants taken, moved, and ended, in any order.
TEST(MemoryBudget, IsBalancedUnderAnySchedule) {
  const Seeds seeds = seeds_from_environment(50);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto whole = MemoryBudget::make("whole", 1'000);
    const std::array<std::shared_ptr<MemoryBudget>, 2> parts = {
        MemoryBudget::make("a", 700, whole), MemoryBudget::make("b", 600, whole)};
    std::array<std::vector<Grant>, 2> held;
    for (int step = 0; step < 2'000; ++step) {
      const size_t one = random() % 2;
      if (random() % 2 == 0) {
        if (auto grant = parts[one]->take(random() % 300)) held[one].push_back(std::move(*grant));
      } else if (!held[one].empty()) {
        std::swap(held[one][random() % held[one].size()], held[one].back());
        held[one].pop_back();
      }
      std::array<uint64_t, 2> sums = {};
      for (size_t i = 0; i < 2; ++i) {
        for (const Grant& grant : held[i]) sums[i] += grant.bytes();
        ASSERT_EQ(parts[i]->granted_bytes(), sums[i]);
        ASSERT_LE(sums[i], parts[i]->bytes());
      }
      ASSERT_EQ(whole->granted_bytes(), sums[0] + sums[1]);
      ASSERT_LE(sums[0] + sums[1], whole->bytes());
    }
    for (auto& grants : held) grants.clear();
    ASSERT_EQ(whole->granted_bytes(), 0u);
  }
}

// Two want the last bytes, again and again: one of them at the most has them.
TEST(MemoryBudget, TheLastBytesGoToOneOfTwo) {
  const auto whole = MemoryBudget::make("whole", 100);
  const std::array<std::shared_ptr<MemoryBudget>, 2> parts = {MemoryBudget::make("a", 100, whole),
                                                              MemoryBudget::make("b", 100, whole)};
  std::atomic<int> holders = 0;
  std::atomic<bool> both = false;
  std::array<std::thread, 2> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      for (int turn = 0; turn < 20'000; ++turn) {
        const auto grant = parts[i]->take(60);
        if (!grant) continue;
        if (++holders > 1) both = true;
        --holders;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(both);
  EXPECT_EQ(whole->granted_bytes(), 0u);
  for (const auto& part : parts) EXPECT_EQ(part->granted_bytes(), 0u);
}

TEST(ClientBudget, EachHasBytesThatNobodyElseTakes) {
  const auto shared = MemoryBudget::make("node.staging_budget_bytes", kMiB);
  const auto own = MemoryBudget::make("", 2 * kOwnBytesOfClient);
  ClientBudget first(shared, own);
  ClientBudget second(shared, own);
  const auto staging = first.take_staging(kMiB).value();
  const auto lane = second.take(kOwnBytesOfClient, "a lane").value();
  const auto refused = second.take(1, "a lane");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  for (const char* part : {"a lane needs 1 B", "256 KiB of its own", "1 MiB of the 1 MiB",
                           "node.staging_budget_bytes", "lower client.staging_bytes"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  EXPECT_TRUE(first.take(kOwnBytesOfClient, "a lane"));
}

TEST(ClientBudget, WhatCanNeverFitIsRefusedForGood) {
  ClientBudget client(MemoryBudget::make("tenant.a.staging_budget_bytes", kMiB),
                      MemoryBudget::make("", kMiB));
  const auto refused = client.take_staging(kMiB + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("tenant.a.staging_budget_bytes is 1 MiB"),
            std::string::npos)
      << refused.error().message;
}

TEST(ClientBudget, ANodePromisesNoMoreThanThereIs) {
  EXPECT_TRUE(check_promises(kGiB, 4, kGiB + kMiB));
  const auto refused = check_promises(kGiB, 5, kGiB + kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  for (const char* part :
       {"1 GiB", "node.staging_budget_bytes", "node.max_clients", "pool_bytes"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(check_promises(UINT64_MAX, 1, kGiB));
}

}  // namespace
}  // namespace farpage
