#include "base/clock_gap.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

constexpr uint64_t kLease = 2 * kSecond;

struct SetClock final : Clock {
  mutable uint64_t now = 100 * kSecond;
  uint64_t each_look = 0;  // so much passes
  uint64_t now_ns() const override { return now += each_look; }
};

// A machine whose two clocks are set.
struct Machine final : Runtime {
  SetClock own;
  SetClock wall;

  const Clock& clock() const override { return own; }
  const Clock& wall_clock() const override { return wall; }
  void after(uint64_t, std::function<void()>) override {}
  void offload(JobClass, std::function<void()>) override {}
  bool wait_until(uint64_t, const std::function<bool()>&) override { return false; }
  void wake() override {}

  void pass(uint64_t duration_ns) {
    own.now += duration_ns;
    wall.now += duration_ns;
  }
  uint64_t held_since(const ClockGap& then, uint64_t lease_ns = kLease) const {
    return ClockGap::held_ns(*this, then, lease_ns);
  }
};

TEST(ClockGap, MachineThatRunsOrSleepsIsNotHeld) {
  Machine machine;
  machine.wall.now = 1'700'000'000 * kSecond;
  const ClockGap then = ClockGap::of(machine);
  machine.pass(3'600 * kSecond);  // CLOCK_BOOTTIME goes on over a suspend
  EXPECT_EQ(machine.held_since(then), 0u);
}

TEST(ClockGap, WallClockThatIsAheadTellsHowLongItWasHeld) {
  Machine machine;
  const ClockGap then = ClockGap::of(machine);
  machine.pass(kSecond);
  machine.wall.now += 5 * kSecond;
  EXPECT_EQ(machine.held_since(then), 5 * kSecond);
  machine.pass(kSecond);
  machine.wall.now += kSecond;
  EXPECT_EQ(machine.held_since(then), 6 * kSecond) << "in parts";
  EXPECT_EQ(machine.held_since(ClockGap::of(machine)), 0u) << "what is leased now knows of it";
}

TEST(ClockGap, WallClockThatIsSetBackTellsNothing) {
  Machine machine;
  const ClockGap then = ClockGap::of(machine);
  machine.wall.now -= 50 * kSecond;
  EXPECT_EQ(machine.held_since(then), 0u);
}

TEST(ClockGap, WhatTimeServicesDoAndTheDriftForgiveIsForgiven) {
  for (const auto& [lease_ns, forgiven_ns] :
       {std::pair{20 * kMillisecond, 100 * kMillisecond},
        std::pair{2 * kSecond, 100 * kMillisecond}, std::pair{640 * kSecond, 5 * kSecond}}) {
    Machine machine;
    const ClockGap then = ClockGap::of(machine);
    machine.wall.now += forgiven_ns;
    EXPECT_EQ(machine.held_since(then, lease_ns), 0u) << lease_ns;
    machine.wall.now += 1;
    EXPECT_EQ(machine.held_since(then, lease_ns), forgiven_ns + 1) << lease_ns;
  }
}

// A busy machine takes the thread away between two looks, at the lease or now: that is no hold.
TEST(ClockGap, ThreadThatStandsStillBetweenTwoLooksIsNoHold) {
  struct OneTime final : Runtime {
    SetClock time;  // that both clocks show

    const Clock& clock() const override { return time; }
    const Clock& wall_clock() const override { return time; }
    void after(uint64_t, std::function<void()>) override {}
    void offload(JobClass, std::function<void()>) override {}
    bool wait_until(uint64_t, const std::function<bool()>&) override { return false; }
    void wake() override {}
  };
  for (const bool slow_then : {false, true}) {
    OneTime machine;
    const auto look_slowly = [&](bool slow) { machine.time.each_look = slow ? 3 * kSecond : 0; };
    look_slowly(slow_then);
    const ClockGap then = ClockGap::of(machine);
    look_slowly(!slow_then);
    EXPECT_EQ(ClockGap::held_ns(machine, then, kLease), 0u) << slow_then;
  }
}

TEST(ClockGap, ClocksOfThisMachineGoTogether) {
  struct Here final : Runtime {
    const Clock& clock() const override { return boottime_clock(); }
    const Clock& wall_clock() const override { return realtime_clock(); }
    void after(uint64_t, std::function<void()>) override {}
    void offload(JobClass, std::function<void()>) override {}
    bool wait_until(uint64_t, const std::function<bool()>&) override { return false; }
    void wake() override {}
  };
  EXPECT_GT(Here().wall_clock().now_ns(), 1'600'000'000 * kSecond);
  EXPECT_LT(ClockGap::of(Here()).grown_since(ClockGap::of(Here())), 1'000 * kSecond);
}

}  // namespace
}  // namespace farpage
