#include "client/runner/submission_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace farpage {
namespace {

TEST(SubmissionPool, GivesOutAsManyAsItHas) {
  SubmissionPool pool({.queue_depth = 3});
  std::vector<Submission*> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(pool.take());
  EXPECT_NE(taken[0], taken[1]);
  EXPECT_NE(taken[1], taken[2]);
  EXPECT_EQ(pool.take(), nullptr);
  pool.give_back(*taken[1]);
  EXPECT_EQ(pool.take(), taken[1]);
}

TEST(SubmissionPool, SubmissionsComeInTheOrderOfTheirCalls) {
  SubmissionPool pool({.queue_depth = 8});
  std::vector<Submission*> sent;
  for (int i = 0; i < 3; ++i) pool.submit(*sent.emplace_back(pool.take()));
  EXPECT_EQ(pool.next_submitted(), sent[0]);
  for (int i = 0; i < 2; ++i) pool.submit(*sent.emplace_back(pool.take()));
  for (int i = 1; i < 5; ++i) EXPECT_EQ(pool.next_submitted(), sent[i]);
  EXPECT_EQ(pool.next_submitted(), nullptr);
  EXPECT_EQ(pool.rings(), 5u);
}

// Few of them and many threads: each has one of them alone, and none is lost.
TEST(SubmissionPool, NoTwoThreadsHaveTheSameOne) {
  constexpr int kRounds = 2'000;
  SubmissionPool pool({.queue_depth = 3});
  std::atomic<int> submitted = 0;
  std::atomic<int> shared = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < kRounds;) {
        Submission* taken = pool.take();
        if (taken == nullptr) continue;
        taken->keys.push_back({static_cast<uint64_t>(number), 0});
        shared += taken->keys.size() != 1 || taken->keys[0].low != static_cast<uint64_t>(number);
        if (round % 2 == 0) {
          pool.give_back(*taken);
        } else {
          pool.submit(*taken);
          ++submitted;
        }
        ++round;
      }
    });
  }
  int seen = 0;
  while (seen < 4 * kRounds / 2) {
    Submission* next = pool.next_submitted();
    if (next == nullptr) continue;
    ++seen;
    pool.give_back(*next);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, 0);
  EXPECT_EQ(submitted, seen);
  for (int i = 0; i < 3; ++i) EXPECT_NE(pool.take(), nullptr);
  EXPECT_EQ(pool.take(), nullptr);
}

}  // namespace
}  // namespace farpage
