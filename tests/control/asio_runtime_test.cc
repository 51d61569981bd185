#include "control/asio_runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace farpage {
namespace {

TEST(AsioRuntime, RunsCallbacksOnOneThreadInTheOrderOfPosting) {
  AsioRuntime runtime;
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 100; ++i) runtime.after(0, [&order, i] { order.push_back(i); });
  runtime.run([&] { thread = std::this_thread::get_id(); });
  EXPECT_NE(thread, std::this_thread::get_id());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(AsioRuntime, TimersNeverComeEarlyAndComeInOrder) {
  AsioRuntime runtime;
  const uint64_t start = runtime.clock().now_ns();
  std::atomic<uint64_t> late = 0;
  std::atomic<uint64_t> soon = 0;
  const auto note = [&](std::atomic<uint64_t>& at) {
    return [&] {
      at = runtime.clock().now_ns();
      runtime.notify();
    };
  };
  runtime.after(30 * kMillisecond, note(late));
  runtime.after(5 * kMillisecond, note(soon));
  ASSERT_TRUE(runtime.wait_until(start + 20 * kSecond, [&] { return late != 0; }));
  EXPECT_GE(soon.load(), start + 5 * kMillisecond);
  EXPECT_GE(late.load(), start + 30 * kMillisecond);
  EXPECT_LE(soon.load(), late.load());
}

TEST(AsioRuntime, WaitEndsAtItsDeadline) {
  AsioRuntime runtime;
  const uint64_t deadline = runtime.clock().now_ns() + 20 * kMillisecond;
  EXPECT_FALSE(runtime.wait_until(deadline, [] { return false; }));
  EXPECT_GE(runtime.clock().now_ns(), deadline);
  EXPECT_FALSE(runtime.wait_until(0, [] { return false; }));
  EXPECT_TRUE(runtime.wait_until(0, [] { return true; }));
}

TEST(AsioRuntime, NotifyWakesAWaiter) {
  AsioRuntime runtime;
  std::atomic<bool> ready = false;
  runtime.after(kMillisecond, [&] {
    ready = true;
    runtime.notify();
  });
  EXPECT_TRUE(runtime.wait_until(kNever, [&] { return ready.load(); }));
}

TEST(AsioRuntime, CallbacksThatHaveNotRunByTheEndNeverDo) {
  std::atomic<int> runs = 0;
  auto token = std::make_shared<int>(0);
  {
    AsioRuntime runtime;
    runtime.after(3600 * kSecond, [&runs, token] { ++runs; });
    runtime.run([] {});
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(token.use_count(), 1) << "what the callback held is freed";
}

TEST(AsioRuntime, TakesCallbacksFromManyThreads) {
  AsioRuntime runtime;
  std::atomic<int> count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        runtime.after(j % 2 == 0 ? 0 : kMicrosecond, [&] {
          ++count;
          runtime.notify();
        });
      }
      runtime.run([] {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t deadline = runtime.clock().now_ns() + 20 * kSecond;
  EXPECT_TRUE(runtime.wait_until(deadline, [&] { return count == 2000; })) << count;
}

}  // namespace
}  // namespace farpage
