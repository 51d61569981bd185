#include "node/clients/client_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/runtime/asio_runtime.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

// Says on which thread it went, and when.
struct Thing {
  explicit Thing(std::function<void()> when_ended) : ended(std::move(when_ended)) {}
  ~Thing() { ended(); }
  std::function<void()> ended;
};

class ClientJobsInThreads : public ::testing::Test {
 protected:
  bool await(const std::function<bool()>& ready) {
    return runtime_.wait_until(runtime_.clock().now_ns() + 20 * kSecond, ready);
  }

  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  AsioRuntime runtime_;
};

TEST_F(ClientJobsInThreads, GoesOnBesideTheRuntimesThreadAndIsToldThere) {
  std::thread::id worked;
  std::thread::id told;
  std::thread::id own;
  std::atomic<bool> done = false;
  ClientJobs jobs(runtime_, fabric_);
  runtime_.run([&] {
    own = std::this_thread::get_id();
    jobs.run(
        [&](Fabric& fabric) {
          EXPECT_EQ(&fabric, &fabric_);
          worked = std::this_thread::get_id();
        },
        [&] {
          told = std::this_thread::get_id();
          done = true;
          runtime_.notify();
        });
  });
  ASSERT_TRUE(await([&] { return done.load(); }));
  EXPECT_NE(worked, own);
  EXPECT_EQ(told, own);
}

TEST_F(ClientJobsInThreads, WhatIsEndedGoesOnAnotherThread) {
  std::atomic<bool> ended = false;
  std::thread::id on;
  ClientJobs jobs(runtime_, fabric_);
  jobs.end(std::make_unique<Thing>([&] {
    on = std::this_thread::get_id();
    ended = true;
    runtime_.notify();
  }));
  ASSERT_TRUE(await([&] { return ended.load(); }));
  EXPECT_NE(on, std::this_thread::get_id());
}

TEST_F(ClientJobsInThreads, AFewAtATimeBeginInTheirOrder) {
  constexpr size_t kAll = 3 * ClientJobs::kMostAtOnce;
  std::mutex mutex;  // of the next three
  size_t begun = 0;
  size_t inside = 0;
  size_t most = 0;
  std::atomic<bool> is_full = false;
  std::atomic<size_t> told = 0;
  std::atomic<bool> go_on = false;
  ClientJobs jobs(runtime_, fabric_);
  for (size_t i = 0; i < kAll; ++i) {
    jobs.run(
        [&, i](Fabric&) {
          {
            const std::lock_guard lock(mutex);
            ++begun;
            most = std::max(most, ++inside);
            if (inside == ClientJobs::kMostAtOnce) is_full = true;
          }
          if (i < ClientJobs::kMostAtOnce) {
            runtime_.notify();
            runtime_.wait_until(kNever, [&] { return go_on.load(); });
          }
          const std::lock_guard lock(mutex);
          --inside;
        },
        [&] {
          ++told;
          runtime_.notify();
        });
  }
  ASSERT_TRUE(await([&] { return is_full.load(); }));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(begun, ClientJobs::kMostAtOnce) << "the first of them, for only those wait inside";
  }
  go_on = true;
  runtime_.notify();
  ASSERT_TRUE(await([&] { return told == kAll; }));
  EXPECT_EQ(most, ClientJobs::kMostAtOnce);
}

// Else what clients that have gone had would pile up behind what those that come ask for.
TEST_F(ClientJobsInThreads, WhatIsEndedComesBeforeWhatIsMade) {
  std::atomic<size_t> inside = 0;
  std::atomic<size_t> may_go = 0;
  std::mutex mutex;
  std::vector<std::string> begun;
  const auto begin = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    begun.push_back(what);
  };
  std::atomic<int> told = 0;
  ClientJobs jobs(runtime_, fabric_);
  for (size_t i = 0; i < ClientJobs::kMostAtOnce; ++i) {
    jobs.run(
        [&, i](Fabric&) {
          ++inside;
          runtime_.notify();
          runtime_.wait_until(kNever, [&] { return may_go > i; });
        },
        [] {});
  }
  ASSERT_TRUE(await([&] { return inside == ClientJobs::kMostAtOnce; }));
  jobs.run([&](Fabric&) { begin("made"); },
           [&] {
             ++told;
             runtime_.notify();
           });
  jobs.end(std::make_unique<Thing>([&] { begin("ended"); }));
  may_go = 1;
  runtime_.notify();
  ASSERT_TRUE(await([&] { return told == 1; }));
  EXPECT_EQ(begun, (std::vector<std::string>{"ended", "made"})) << "one thread was free for both";
  may_go = ClientJobs::kMostAtOnce;
  runtime_.notify();
}

// Ends may last as long as a silent peer is waited for, and clients come meanwhile.
TEST_F(ClientJobsInThreads, EndsLeaveRoomForWhatIsMade) {
  std::atomic<size_t> inside = 0;
  std::atomic<bool> go_on = false;
  std::atomic<size_t> ended = 0;
  std::atomic<bool> made = false;
  ClientJobs jobs(runtime_, fabric_);
  constexpr size_t kEnds = 3 * ClientJobs::kMostAtOnce;
  for (size_t i = 0; i < kEnds; ++i) {
    jobs.end(std::make_unique<Thing>([&] {
      ++inside;
      runtime_.notify();
      runtime_.wait_until(kNever, [&] { return go_on.load(); });
      ++ended;
      runtime_.notify();
    }));
  }
  ASSERT_TRUE(await([&] { return inside >= ClientJobs::kMostEndsAtOnce; }));
  for (int i = 0; i < 2; ++i) {  // one after the other
    made = false;
    jobs.run([](Fabric&) {},
             [&] {
               made = true;
               runtime_.notify();
             });
    EXPECT_TRUE(await([&] { return made.load(); }));
  }
  EXPECT_EQ(inside, ClientJobs::kMostEndsAtOnce);
  go_on = true;
  runtime_.notify();
  EXPECT_TRUE(await([&] { return ended == kEnds; }));
}

TEST_F(ClientJobsInThreads, ItsEndWaitsForWhatIsInsideAndDestroysTheRest) {
  std::atomic<size_t> inside = 0;
  std::atomic<bool> go_on = false;
  std::atomic<int> ended = 0;
  std::atomic<bool> gone = false;
  auto jobs = std::make_unique<ClientJobs>(runtime_, fabric_);
  const auto held = std::make_shared<Thing>([&] { ++ended; });
  for (size_t i = 0; i < ClientJobs::kMostAtOnce; ++i) {
    jobs->run(
        [&](Fabric&) {
          ++inside;
          runtime_.notify();
          runtime_.wait_until(kNever, [&] { return go_on.load(); });
          EXPECT_FALSE(gone);
        },
        [] { FAIL() << "nobody is there to be told"; });
  }
  ASSERT_TRUE(await([&] { return inside == ClientJobs::kMostAtOnce; }));
  jobs->run([&](Fabric&) { FAIL() << "it has not begun, and never does"; },
            [own = std::make_shared<Thing>([&] { ++ended; })] {});
  jobs->end(std::make_unique<Thing>([&] { ++ended; }));
  std::atomic<bool> is_ending = false;
  std::thread ending([&] {
    runtime_.run([&] {
      is_ending = true;
      runtime_.notify();
      jobs.reset();
      gone = true;
      EXPECT_EQ(ended, 2);
    });
  });
  EXPECT_TRUE(await([&] { return is_ending.load(); }));
  EXPECT_FALSE(runtime_.wait_until(runtime_.clock().now_ns() + 20 * kMillisecond,
                                   [&] { return gone.load(); }));
  go_on = true;
  runtime_.notify();
  ending.join();
}

// Its process has died, and its runtime runs nothing any more.
TEST(ClientJobsInVirtualTime, OfADeadProcessIsDestroyedWithIt) {
  sim::World world(1);
  sim::SimFabric fabric(world, {.offload_min_ns = kMillisecond, .offload_max_ns = kMillisecond});
  int ended = 0;
  {
    ClientJobs jobs(fabric.runtime(), fabric);
    jobs.run([](Fabric&) { FAIL(); },
             [own = std::make_shared<Thing>([&] { ++ended; })] { FAIL(); });
    fabric.die();
    world.run_until(world.now_ns() + kSecond);
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace farpage
