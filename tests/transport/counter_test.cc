#include "transport/counter.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

namespace farpage {
namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(CompletionCounter, IsDoneWhenAllHaveArrivedHoweverTheyEnded) {
  CompletionCounter counter;
  counter.reset(4);
  counter.arrive(Outcome::kOk, 2);
  counter.arrive(Outcome::kFailed);
  EXPECT_FALSE(counter.done());
  counter.arrive(Outcome::kAborted);
  EXPECT_TRUE(counter.done());
  const CounterValue value = counter.value();
  EXPECT_EQ(value.ok, 2u);
  EXPECT_EQ(value.failed, 1u);
  EXPECT_EQ(value.aborted, 1u);
}

TEST(CompletionCounter, KeepsArrivalsThatComeBeforeTheirNumberIsKnown) {
  CompletionCounter counter;
  counter.arrive(Outcome::kOk, 3);
  EXPECT_FALSE(counter.done());
  counter.expect(3);
  EXPECT_TRUE(counter.done());
  counter.reset(CompletionCounter::kUnknown);
  EXPECT_FALSE(counter.done());
  EXPECT_EQ(counter.value().total(), 0u);
}

TEST(CompletionCounter, NothingExpectedIsDoneAtOnce) {
  CompletionCounter counter;
  Result<int> fd = counter.event_fd();
  ASSERT_TRUE(fd);
  counter.reset(0);
  EXPECT_TRUE(counter.done());
  EXPECT_TRUE(readable(*fd));
}

TEST(CompletionCounter, EventFdIsReadableFromDoneUntilReset) {
  CompletionCounter counter;
  counter.reset(1);
  Result<int> fd = counter.event_fd();
  ASSERT_TRUE(fd);
  EXPECT_FALSE(readable(*fd));
  counter.arrive(Outcome::kOk);
  counter.arrive(Outcome::kOk);
  EXPECT_TRUE(readable(*fd));
  counter.reset(1);
  EXPECT_FALSE(readable(*fd));
  counter.arrive(Outcome::kAborted);
  EXPECT_TRUE(readable(*fd));
  EXPECT_EQ(*counter.event_fd(), *fd);
}

TEST(CompletionCounter, EventFdMadeAfterDoneIsReadable) {
  CompletionCounter counter;
  counter.reset(1);
  counter.arrive(Outcome::kOk);
  Result<int> fd = counter.event_fd();
  ASSERT_TRUE(fd);
  EXPECT_TRUE(readable(*fd));
}

TEST(CompletionCounter, CallbackRunsOnceBeforeOrAfterDone) {
  CompletionCounter counter;
  int calls = 0;
  counter.reset(2);
  counter.on_done([&] { ++calls; });
  counter.arrive(Outcome::kOk);
  EXPECT_EQ(calls, 0);
  counter.arrive(Outcome::kOk);
  counter.arrive(Outcome::kOk);
  counter.expect(1);
  EXPECT_EQ(calls, 1);
  counter.reset(1);
  counter.arrive(Outcome::kOk);
  EXPECT_EQ(calls, 1) << "reset() forgets the callback";
  counter.on_done([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

// Where the number is known beforehand, on_done() and event_fd() race with the arrivals.
TEST(CompletionCounter, RacesOfAKnownNumberAnnounceOnce) {
  constexpr uint32_t kArrivals = 5;
  CompletionCounter counter;
  for (int round = 0; round < 2000; ++round) {
    counter.reset(kArrivals);
    std::atomic<int> calls{0};
    std::thread arrivals([&] {
      for (uint32_t i = 0; i < kArrivals; ++i) {
        counter.arrive(i % 2 == 0 ? Outcome::kOk : Outcome::kFailed);
      }
    });
    counter.on_done([&] { ++calls; });
    const Result<int> fd = counter.event_fd();
    arrivals.join();
    ASSERT_TRUE(fd);
    ASSERT_EQ(calls, 1);
    ASSERT_TRUE(readable(*fd));
    ASSERT_EQ(counter.value().ok, 3u);
    ASSERT_EQ(counter.value().failed, 2u);
  }
}

// expect(), on_done(), event_fd() and the arrivals race; each round must announce exactly once.
TEST(CompletionCounter, RacesAnnounceExactlyOnce) {
  constexpr int kRounds = 2000;
  constexpr uint32_t kArrivals = 3;
  CompletionCounter counter;
  std::atomic<int> calls{0};
  std::atomic<int> round{0};
  std::atomic<int> finished{0};
  std::thread arrivals([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load() < i) std::this_thread::yield();
      for (uint32_t n = 0; n < kArrivals; ++n) counter.arrive(Outcome::kOk);
      finished.fetch_add(1);
    }
  });
  std::thread waiter([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load() < i) std::this_thread::yield();
      if (i % 2 == 0) counter.expect(kArrivals);
      counter.on_done([&] { calls.fetch_add(1); });
      finished.fetch_add(1);
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    counter.reset(i % 2 == 0 ? CompletionCounter::kUnknown : kArrivals);
    round.store(i);
    if (i % 3 == 0) {
      EXPECT_TRUE(counter.event_fd());
    }
    while (finished.load() < 2 * i) std::this_thread::yield();
    EXPECT_TRUE(counter.done());
    EXPECT_EQ(calls.load(), i);
    EXPECT_TRUE(readable(*counter.event_fd()));
  }
  arrivals.join();
  waiter.join();
}

}  // namespace
}  // namespace farpage
