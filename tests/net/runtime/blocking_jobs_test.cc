#include "net/runtime/blocking_jobs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "net/runtime/asio_runtime.h"
#include "tests/net/no_more_threads.h"
#include "tests/net/pair.h"

namespace farpage {
namespace {

constexpr size_t kMost = JobThreads{}.connect;

class BlockingJobsTest : public ::testing::Test {
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
  std::atomic<size_t> others_ = 0;
  std::atomic<bool> go_on_ = false;
};

TEST_F(BlockingJobsTest, AsManyAsItMayHaveRunAtOnceAndTheRestAfterThem) {
  constexpr size_t kBeyond = 10;
  BlockingJobs jobs;
  for (size_t i = 0; i < kMost + kBeyond; ++i) {
    ASSERT_TRUE(jobs.take(JobClass::kConnect, blocking()));
  }
  EXPECT_TRUE(wait([&] { return begun_ == kMost; })) << begun_;
  let_go();
  EXPECT_TRUE(wait([&] { return begun_ == kMost + kBeyond; })) << begun_;
}

// Whether this thread of the process sleeps, as one does that waits for work.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "S";
}

TEST_F(BlockingJobsTest, ThreadThatIsIdleIsUsedAgain) {
  BlockingJobs jobs;
  std::set<pid_t> threads;
  std::atomic<pid_t> last = 0;
  std::atomic<size_t> ended = 0;
  for (size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(jobs.take(JobClass::kConnect, [&] {
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

TEST_F(BlockingJobsTest, WithoutAnyThreadWorkIsNotTaken) {
  BlockingJobs jobs;
  std::atomic<size_t> ran = 0;
  {
    const NoMoreThreads none;
    EXPECT_FALSE(jobs.take(JobClass::kConnect, [&] { count(ran); }));
  }
  ASSERT_TRUE(jobs.take(JobClass::kConnect, [&] { count(ran); }));
  EXPECT_TRUE(wait([&] { return ran == 1; }));
}

TEST_F(BlockingJobsTest, WithoutAnotherThreadWorkWaitsForTheOneThereIs) {
  BlockingJobs jobs;
  ASSERT_TRUE(jobs.take(JobClass::kConnect, blocking()));
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  std::atomic<size_t> ran = 0;
  const NoMoreThreads none;
  EXPECT_TRUE(jobs.take(JobClass::kConnect, [&] { count(ran); }));
  EXPECT_EQ(ran, 0u);
  let_go();
  EXPECT_TRUE(wait([&] { return ran == 1; }));
}

TEST_F(BlockingJobsTest, WhatHasNotBegunWhenItStopsNeverRunsAndIsFreed) {
  auto token = std::make_shared<int>(0);
  BlockingJobs jobs;
  for (size_t i = 0; i < kMost; ++i) ASSERT_TRUE(jobs.take(JobClass::kConnect, blocking()));
  ASSERT_TRUE(wait([&] { return begun_ == kMost; }));
  std::atomic<size_t> ran = 0;
  ASSERT_TRUE(jobs.take(JobClass::kConnect, [&, token] { count(ran); }));
  EXPECT_EQ(token.use_count(), 2);
  std::thread stopping([&] { jobs.stop(); });
  while (token.use_count() > 1) std::this_thread::yield();
  EXPECT_TRUE(jobs.take(JobClass::kConnect, [&, token] { count(ran); }));
  EXPECT_EQ(token.use_count(), 1) << "it stops, and takes nothing more";
  let_go();
  stopping.join();
  EXPECT_EQ(ran, 0u);
}

TEST_F(BlockingJobsTest, ClassWhoseThreadsAllBlockKeepsNoOtherWaiting) {
  constexpr std::pair<JobClass, size_t> kClasses[] = {{JobClass::kDial, JobThreads{}.dial},
                                                      {JobClass::kConnect, kMost},
                                                      {JobClass::kDispose, JobThreads{}.dispose}};
  for (const auto& [blocked, most] : kClasses) {
    BlockingJobs jobs;
    begun_ = others_ = 0;
    go_on_ = false;
    for (size_t i = 0; i < most + 10; ++i) {
      EXPECT_TRUE(jobs.take(blocked, blocking()));
    }
    EXPECT_TRUE(wait([&, most = most] { return begun_ == most; })) << begun_;
    for (const auto& [other, its_most] : kClasses) {
      if (other == blocked) continue;
      EXPECT_TRUE(jobs.take(other, [this] { count(others_); }));
    }
    EXPECT_TRUE(wait([&] { return others_ == 2; })) << others_;
    EXPECT_EQ(begun_, most) << "no more of one class than it may have";
    let_go();
    EXPECT_TRUE(wait([&, most = most] { return begun_ == most + 10; })) << begun_;
  }
}

}  // namespace
}  // namespace farpage
