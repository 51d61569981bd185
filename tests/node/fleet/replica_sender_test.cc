#include "node/fleet/replica_sender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>
#include <vector>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

constexpr Member kSelf = {7, 0, false, 1};
constexpr uint64_t kPageBytes = 256;

// Knows how many callbacks wait for their time.
class CountingRuntime final : public Runtime {
 public:
  explicit CountingRuntime(sim::World& world) : world_(world) {}
  const Clock& clock() const override { return world_.clock(); }
  void after(uint64_t delay_ns, std::function<void()> callback) override {
    ++waiting;
    world_.after(delay_ns, [this, callback = std::move(callback)] {
      --waiting;
      callback();
    });
  }
  void offload(JobClass job, std::function<void()> work) override {
    world_.offload(job, std::move(work));
  }
  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override {
    return world_.wait_until(deadline_ns, ready);
  }
  void wake() override { world_.notify(); }

  size_t waiting = 0;

 private:
  sim::World& world_;
};

// Of a fleet of one: its batches end at once.
struct Primary {
  sim::World world{1};
  CountingRuntime runtime{world};
  sim::SimFabric fabric{world, {}};
  std::unique_ptr<PageStore> store =
      PageStore::create({make_geometry(kPageBytes, 16 * (kPageBytes + 64)).value(), 1, 1, true},
                        fabric, world.clock())
          .value();
  Fleet fleet = {{1, 1, 1, kPageBytes, {kSelf}}, nullptr, 0, nullptr};
  NodeEpoch epoch{runtime, fleet, kSelf, kPageBytes, {[] {}, [] {}}};
  ReplicaSender replica_sender{runtime, *store, epoch, [](NodeId) { return nullptr; }, [] {}};
  uint64_t ended = 0;
  std::set<Code> codes;
  std::function<void()> on_end;

  Primary() { epoch.start(); }
  uint64_t now() const { return world.now_ns(); }
  void replicate(uint64_t number, uint64_t patience_ns) {
    ReplicaPage page;
    page.page.key = {number, 1};
    page.removed = true;
    replica_sender.hold(page);
    replica_sender.replicate({page}, now() + patience_ns, [this](size_t, Code code) {
      ++ended;
      codes.insert(code);
      if (on_end) on_end();
    });
  }
};

TEST(ReplicaSender, BatchesThatHaveEndedLeaveNoTimerEach) {
  Primary at;
  for (uint64_t number = 0; number < 1000; ++number) {
    at.replicate(number, kSecond + number % 3 * kSecond);
    at.world.run_until(at.now() + kMicrosecond);
  }
  EXPECT_EQ(at.ended, 1000u);
  EXPECT_LE(at.runtime.waiting, 3u);
  at.world.run_until(at.now() + 4 * kSecond);
  EXPECT_EQ(at.runtime.waiting, 0u);
}

TEST(ReplicaSender, WhatEndsInALaterTurnIsNotReplicatedMeanwhile) {
  constexpr uint64_t kPages = 1000;
  Primary at;
  for (uint64_t number = 0; number < kPages; ++number) at.replicate(number, kSecond);
  at.replica_sender.abort(Code::kOtherEpoch);
  EXPECT_LT(at.ended, kPages);  // all others have it: so it would end well
  at.replicate(kPages, kSecond);
  at.world.run_until(at.now() + kMicrosecond);
  EXPECT_EQ(at.ended, kPages + 1);
  EXPECT_EQ(at.codes, (std::set{Code::kOk, Code::kOtherEpoch}));
  EXPECT_EQ(at.replica_sender.replicated(), 1u);  // what began behind the abort
}

TEST(ReplicaSender, PageThatEndsMayAbortTheOthers) {
  constexpr uint64_t kPages = 1000;
  Primary at;
  at.on_end = [&] {
    if (at.ended == 256) at.replica_sender.abort(Code::kOtherEpoch);  // the turn's last one
  };
  for (uint64_t number = 0; number < kPages; ++number) at.replicate(number, kSecond);
  at.replica_sender.abort(Code::kOtherEpoch);
  EXPECT_EQ(at.ended, 256u);
  at.world.run_until(at.now() + kMicrosecond);
  EXPECT_EQ(at.ended, kPages);
}

TEST(ReplicaSender, WhatIsAbortedAtOnceHasEnded) {
  Primary at;
  for (uint64_t number = 0; number < 1000; ++number) at.replicate(number, kSecond);
  at.replica_sender.abort_at_once(Code::kOtherEpoch);
  EXPECT_EQ(at.ended, 1000u);
  EXPECT_EQ(at.codes, std::set{Code::kOtherEpoch});
}

uint64_t cpu_ns() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kSecond + static_cast<uint64_t>(used.tv_nsec);
}

// For so many batches that are under way at one time, all of them, as the processor counts it.
uint64_t cost_ns(uint64_t batches) {
  uint64_t least = kNever;
  for (int i = 0; i < 3; ++i) {
    Primary at;
    for (uint64_t number = 0; number < batches; ++number) at.replicate(number, kSecond);
    const uint64_t began = cpu_ns();
    at.world.run_until(at.now() + kMicrosecond);
    least = std::min(least, cpu_ns() - began);
    EXPECT_EQ(at.ended, batches);
  }
  return least;
}

// A batch that ends does not look at all the others: square, it would be 64 times as much.
TEST(ReplicaSender, EightTimesTheBatchesCostAboutEightTimesAsMuch) {
  EXPECT_LT(cost_ns(24'000), 24 * cost_ns(3'000));
}

}  // namespace
}  // namespace farpage
