#include "net/runtime/blocking_jobs.h"

#include <gtest/gtest.h>

#include <atomic>

#include "net/runtime/asio_runtime.h"
#include "tests/net/pair.h"

namespace farpage {
namespace {

class BlockingJobsTest : public ::testing::Test {
 protected:
  bool wait(const std::function<bool()>& ready) { return waiter_.wait_until(soon(), ready); }
  void count(std::atomic<size_t>& number) {
    ++number;
    waiter_.notify();
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

TEST_F(BlockingJobsTest, ClassWhoseThreadsAllBlockKeepsNoOtherWaiting) {
  constexpr std::pair<JobClass, size_t> kClasses[] = {
      {JobClass::kDial, BlockingJobs::kDialThreads},
      {JobClass::kConnect, BlockingJobs::kConnectThreads},
      {JobClass::kDispose, BlockingJobs::kDisposeThreads}};
  for (const auto& [blocked, most] : kClasses) {
    BlockingJobs jobs;
    begun_ = others_ = 0;
    go_on_ = false;
    for (size_t i = 0; i < most + 10; ++i) {
      EXPECT_TRUE(jobs.take(blocked, [this] {
        count(begun_);
        go_on_.wait(false);
      }));
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
