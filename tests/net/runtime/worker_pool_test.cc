#include "net/runtime/worker_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "net/runtime/asio_runtime.h"
#include "tests/net/no_more_threads.h"
#include "tests/net/pair.h"

namespace farpage {
namespace {

class WorkerPools : public ::testing::Test {
 protected:
  bool wait(const std::function<bool()>& ready) { return waiter_.wait_until(soon(), ready); }
  void count(std::atomic<size_t>& number) {
    ++number;
    waiter_.notify();
  }
  // Blocks until let_go().
  std::function<void()> blocking() {
    return [this] {
      count(begun_);
      go_on_.wait(false);
    };
  }
  void let_go() {
    go_on_ = true;
    go_on_.notify_all();
  }

  AsioRuntime waiter_;
  std::atomic<size_t> begun_ = 0;
  std::atomic<bool> go_on_ = false;
};

TEST_F(WorkerPools, AsManyAsItMayHaveRunAtOnceAndTheRestAfterThem) {
  constexpr size_t kBeyond = 10;
  WorkerPool pool;
  for (size_t i = 0; i < WorkerPool::kMostThreads + kBeyond; ++i) {
    ASSERT_TRUE(pool.take(blocking()));
  }
  EXPECT_TRUE(wait([&] { return begun_ == WorkerPool::kMostThreads; })) << begun_;
  let_go();
  EXPECT_TRUE(wait([&] { return begun_ == WorkerPool::kMostThreads + kBeyond; })) << begun_;
}

// Whether this thread of the process sleeps, as one does that waits for work.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "S";
}

TEST_F(WorkerPools, ThreadThatIsIdleIsUsedAgain) {
  WorkerPool pool;
  std::set<pid_t> threads;
  std::atomic<pid_t> last = 0;
  std::atomic<size_t> ended = 0;
  for (size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(pool.take([&] {
      last = ::gettid();
      count(ended);
    }));
    ASSERT_TRUE(wait([&] { return ended == i + 1; }));
    threads.insert(last);
    // One that has just ended its work may not be idle yet.
    while (!sleeps(last)) std::this_thread::yield();
  }
  EXPECT_LT(threads.size(), 10u);
}

TEST_F(WorkerPools, WithoutAnyThreadWorkIsNotTaken) {
  WorkerPool pool;
  std::atomic<size_t> ran = 0;
  {
    const NoMoreThreads none;
    EXPECT_FALSE(pool.take([&] { count(ran); }));
  }
  ASSERT_TRUE(pool.take([&] { count(ran); }));
  EXPECT_TRUE(wait([&] { return ran == 1; }));
}

TEST_F(WorkerPools, WithoutAnotherThreadWorkWaitsForTheOneThereIs) {
  WorkerPool pool;
  ASSERT_TRUE(pool.take(blocking()));
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  std::atomic<size_t> ran = 0;
  const NoMoreThreads none;
  EXPECT_TRUE(pool.take([&] { count(ran); }));
  EXPECT_EQ(ran, 0u);
  let_go();
  EXPECT_TRUE(wait([&] { return ran == 1; }));
}

TEST_F(WorkerPools, WhatHasNotBegunWhenItStopsNeverRunsAndIsFreed) {
  auto token = std::make_shared<int>(0);
  WorkerPool pool;
  for (size_t i = 0; i < WorkerPool::kMostThreads; ++i) ASSERT_TRUE(pool.take(blocking()));
  ASSERT_TRUE(wait([&] { return begun_ == WorkerPool::kMostThreads; }));
  std::atomic<size_t> ran = 0;
  ASSERT_TRUE(pool.take([&, token] { count(ran); }));
  EXPECT_EQ(token.use_count(), 2);
  std::thread stopping([&] { pool.stop(); });
  while (token.use_count() > 1) std::this_thread::yield();
  EXPECT_TRUE(pool.take([&, token] { count(ran); }));
  EXPECT_EQ(token.use_count(), 1) << "it stops, and takes nothing more";
  let_go();
  stopping.join();
  EXPECT_EQ(ran, 0u);
}

}  // namespace
}  // namespace farpage
