#include "net/runtime/asio_runtime.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/runtime/blocking_jobs.h"
#include "net/stream/stream.h"
#include "tests/net/no_more_threads.h"
#include "tests/net/pair.h"

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
  // So far apart that both are armed long before the later one may come.
  runtime.after(300 * kMillisecond, note(late));
  runtime.after(5 * kMillisecond, note(soon));
  ASSERT_TRUE(runtime.wait_until(start + 20 * kSecond, [&] { return late != 0 && soon != 0; }));
  EXPECT_GE(soon.load(), start + 5 * kMillisecond);
  EXPECT_GE(late.load(), start + 300 * kMillisecond);
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

TEST(AsioRuntime, NotifyWritesADescriptorOnlyWhereSomebodyHasAsked) {
  AsioRuntime runtime;
  const auto signal = runtime.signal_changes();
  const auto other = runtime.signal_changes();
  runtime.signal_changes();  // and let go at once
  const auto is_told = [](const auto& of) { return wait_for(of->descriptor(), POLLIN, 0); };
  runtime.notify();
  EXPECT_FALSE(is_told(signal));
  for (int round = 0; round < 3; ++round) {
    signal->arm();
    EXPECT_FALSE(is_told(signal));
    runtime.notify();
    EXPECT_TRUE(is_told(signal));
    EXPECT_FALSE(is_told(other));
    signal->clear();
    runtime.notify();
    EXPECT_FALSE(is_told(signal)) << "it was told once";
  }
}

// The waiter hears of the change, whether it comes before the arming or after it.
TEST(AsioRuntime, NoChangeIsMissedBetweenArmingAndTheLook) {
  AsioRuntime runtime;
  const auto signal = runtime.signal_changes();
  constexpr uint64_t kRounds = 2'000;
  std::atomic<uint64_t> seen = 0;
  std::thread notifier([&] {
    for (uint64_t round = 0; round < kRounds; ++round) {
      while (seen < round) std::this_thread::yield();
      runtime.notify();
    }
  });
  while (seen < kRounds) {
    signal->arm();
    if (runtime.changes() == seen) {
      EXPECT_TRUE(wait_for(signal->descriptor(), POLLIN, runtime.clock().now_ns() + 10 * kSecond));
      signal->clear();
    }
    seen = runtime.changes();
  }
  notifier.join();
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

TEST(AsioRuntime, DispatchRunsAtOnceOnTheThreadAndLaterElsewhere) {
  AsioRuntime runtime;
  std::vector<int> order;
  runtime.run([&] {
    runtime.after(0, [&] { order.push_back(2); });
    runtime.dispatch([&] { order.push_back(1); });
  });
  runtime.run([] {});
  runtime.dispatch([&] { order.push_back(3); });
  runtime.run([] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(AsioRuntime, OffloadedWorkBlocksNoCallback) {
  AsioRuntime runtime;
  std::atomic<bool> called = false;
  std::atomic<bool> saw = false;
  runtime.offload(JobClass::kConnect, [&] {
    runtime.after(0, [&] {
      called = true;
      runtime.notify();
    });
    saw = runtime.wait_until(kNever, [&] { return called.load(); });
    runtime.notify();
  });
  EXPECT_TRUE(runtime.wait_until(soon(), [&] { return saw.load(); }));
}

// Dials to nodes that do not answer, say, and one to a node that does.
TEST(AsioRuntime, WorkThatBlocksKeepsNoOtherWorkWaiting) {
  std::atomic<bool> go_on = false;
  std::atomic<bool> ran = false;
  AsioRuntime runtime;  // last: it ends when all that has begun has
  for (int i = 0; i < 20; ++i) runtime.offload(JobClass::kConnect, [&] { go_on.wait(false); });
  runtime.offload(JobClass::kConnect, [&] {
    ran = true;
    runtime.notify();
  });
  EXPECT_TRUE(runtime.wait_until(soon(), [&] { return ran.load(); }));
  go_on = true;
  go_on.notify_all();
}

TEST(AsioRuntime, WorkForWhichThereIsNoThreadRunsOnceThereIsOne) {
  std::atomic<bool> ran = false;
  AsioRuntime runtime;
  {
    const NoMoreThreads none;
    runtime.offload(JobClass::kConnect, [&] {
      ran = true;
      runtime.notify();
    });
    runtime.run([] {});
    EXPECT_FALSE(ran);
  }
  EXPECT_TRUE(runtime.wait_until(soon(), [&] { return ran.load(); }));
}

TEST(AsioRuntime, WorkThatHasBegunEndsBeforeTheRuntimeAndTheRestNeverRuns) {
  constexpr size_t kBegun = JobThreads{}.connect;
  std::atomic<size_t> begun = 0;
  std::atomic<size_t> ended = 0;
  std::atomic<size_t> late = 0;
  std::atomic<bool> offered = false;
  auto token = std::make_shared<int>(0);
  auto rest = std::make_shared<int>(0);
  {
    AsioRuntime runtime;
    for (size_t i = 0; i < kBegun; ++i) {
      runtime.offload(JobClass::kConnect, [&, token] {
        ++begun;
        runtime.notify();
        // Until the destructor has dropped the rest.
        while (!offered || rest.use_count() > 1) std::this_thread::yield();
        runtime.after(kSecond, [&] { ++late; });
        runtime.offload(JobClass::kConnect, [&, token] { ++late; });
        ++ended;
      });
    }
    for (int i = 0; i < 100; ++i) runtime.offload(JobClass::kConnect, [&, rest] { ++late; });
    offered = true;
    EXPECT_TRUE(runtime.wait_until(soon(), [&] { return begun == kBegun; }));
  }
  EXPECT_EQ(ended, kBegun);
  EXPECT_EQ(late, 0u);
  EXPECT_EQ(token.use_count(), 1) << "what the work held is freed";
}

class Watched : public ::testing::Test {
 protected:
  void say(const UniqueFd& fd) { EXPECT_EQ(::send(fd.get(), "x", 1, MSG_NOSIGNAL), 1); }
  void hear(const UniqueFd& fd) {
    char byte = 0;
    EXPECT_EQ(::recv(fd.get(), &byte, 1, MSG_DONTWAIT), 1);
  }
  bool wait(const std::function<bool()>& ready) { return runtime_.wait_until(soon(), ready); }
  void count(std::atomic<int>& calls) {
    ++calls;
    runtime_.notify();
  }

  std::pair<UniqueFd, UniqueFd> pair_ = socket_pair();
  AsioRuntime runtime_;
  std::unique_ptr<Watch> watch_;
};

TEST_F(Watched, CallsBackOnceForEachWait) {
  std::atomic<int> calls = 0;
  runtime_.run([&] {
    watch_ = runtime_.watch(pair_.first.get());
    watch_->when_readable([&] { count(calls); });
  });
  EXPECT_EQ(calls, 0);
  for (int i = 1; i <= 3; ++i) {
    say(pair_.second);
    ASSERT_TRUE(wait([&] { return calls == i; }));
    say(pair_.second);  // nobody waits
    runtime_.run([] {});
    EXPECT_EQ(calls, i);
    hear(pair_.first);
    hear(pair_.first);
    runtime_.run([&] { watch_->when_readable([&] { count(calls); }); });
    EXPECT_EQ(calls, i);
  }
  runtime_.run([&] { watch_.reset(); });
}

// A change before the wait counts, although nothing changes any more.
TEST_F(Watched, WaitForWhatIsThereAlreadyEnds) {
  say(pair_.second);
  std::atomic<int> calls = 0;
  runtime_.run([&] {
    watch_ = runtime_.watch(pair_.first.get());
    watch_->when_readable([&] { count(calls); });
  });
  ASSERT_TRUE(wait([&] { return calls == 1; }));
  runtime_.run([&] { watch_->when_readable([&] { count(calls); }); });
  ASSERT_TRUE(wait([&] { return calls == 2; }));
  runtime_.run([&] { watch_.reset(); });
}

TEST_F(Watched, PeerThatHasClosedIsReadable) {
  std::atomic<int> calls = 0;
  runtime_.run([&] {
    watch_ = runtime_.watch(pair_.first.get());
    watch_->when_readable([&] { count(calls); });
  });
  pair_.second.reset();
  EXPECT_TRUE(wait([&] { return calls == 1; }));
  runtime_.run([&] { watch_.reset(); });
}

TEST_F(Watched, BothDirectionsAreWaitedForApart) {
  std::atomic<int> readable = 0;
  std::atomic<int> writable = 0;
  runtime_.run([&] {
    watch_ = runtime_.watch(pair_.first.get());
    watch_->when_readable([&] { count(readable); });
    watch_->when_writable([&] { count(writable); });
  });
  ASSERT_TRUE(wait([&] { return writable == 1; }));
  EXPECT_EQ(readable, 0);
  const std::string bytes(10'000, 'x');
  while (::send(pair_.first.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) continue;
  runtime_.run([&] { watch_->when_writable([&] { count(writable); }); });
  runtime_.run([] {});
  EXPECT_EQ(writable, 1);
  std::string taken(1 << 20, '\0');
  while (::recv(pair_.second.get(), taken.data(), taken.size(), MSG_DONTWAIT) > 0) continue;
  ASSERT_TRUE(wait([&] { return writable == 2; }));
  EXPECT_EQ(readable, 0);
  runtime_.run([&] { watch_.reset(); });
}

// Both directions are ready when the loop looks; whichever callback runs first takes the watch
// away, and the other one waits in the queue already.
TEST_F(Watched, CallbacksOfAWatchThatHasGoneNeverRun) {
  auto token = std::make_shared<int>(0);
  std::string bytes(100'000, 'x');
  for (int round = 0; round < 50; ++round) {
    const auto ends = socket_pair();
    const UniqueFd& one = ends.first;  // clang 14 captures no structured binding
    const UniqueFd& other = ends.second;
    while (::send(one.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) continue;
    std::unique_ptr<Watch> watch;
    std::atomic<int> calls = 0;
    const auto call = [&, token] {
      watch.reset();
      count(calls);
    };
    runtime_.run([&] {
      watch = runtime_.watch(one.get());
      watch->when_readable(call);
      watch->when_writable(call);
    });
    EXPECT_EQ(calls, 0);
    runtime_.run([&] {
      while (::recv(other.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
      say(other);
    });
    ASSERT_TRUE(wait([&] { return calls > 0; }));
    // Twice: what the callback leaves in the queue comes after what was posted while it ran.
    runtime_.run([] {});
    runtime_.run([] {});
    EXPECT_EQ(calls, 1) << round;
  }
  EXPECT_EQ(token.use_count(), 1) << "what the callbacks held is freed";
}

TEST_F(Watched, WatchMayGoInItsOwnCallback) {
  std::atomic<int> calls = 0;
  runtime_.run([&] {
    watch_ = runtime_.watch(pair_.first.get());
    watch_->when_readable([&] {
      watch_.reset();
      count(calls);
    });
  });
  say(pair_.second);
  EXPECT_TRUE(wait([&] { return calls == 1; }));
}

}  // namespace
}  // namespace farpage
