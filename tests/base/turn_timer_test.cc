#include "base/turn_timer.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/network/world.h"

namespace farpage {
namespace {

class TurnTimerTest : public testing::Test {
 protected:
  // Everything that is due up to then, and the times of its turns.
  std::vector<uint64_t> turns_until(uint64_t time_ns) {
    world_.run_until(time_ns);
    return turns_;
  }

  using Times = std::vector<uint64_t>;
  sim::World world_{1};
  const uint64_t begun_ns_ = world_.now_ns();
  const uint64_t soon_ns_ = begun_ns_ + 10;
  const uint64_t later_ns_ = begun_ns_ + 20;
  const uint64_t end_ns_ = begun_ns_ + 100;
  Times turns_;
  std::function<void()> in_turn_ = [] {};
  std::optional<TurnTimer> timer_{std::in_place, world_, [this] {
                                    turns_.push_back(world_.now_ns());
                                    in_turn_();
                                  }};
};

TEST_F(TurnTimerTest, CallsOnceAtItsTime) {
  timer_->arm(soon_ns_);
  EXPECT_EQ(turns_until(soon_ns_ - 1), Times{});
  EXPECT_EQ(turns_until(end_ns_), Times{soon_ns_});
}

TEST_F(TurnTimerTest, EarlierTimeTakesThePlaceOfALaterOne) {
  timer_->arm(later_ns_);
  timer_->arm(soon_ns_);
  EXPECT_EQ(turns_until(end_ns_), Times{soon_ns_});
}

TEST_F(TurnTimerTest, LaterTimeIsNoneWhileAnEarlierOneIsArmed) {
  timer_->arm(soon_ns_);
  timer_->arm(later_ns_);
  timer_->arm(soon_ns_);
  timer_->arm(kNever);
  EXPECT_EQ(turns_until(end_ns_), Times{soon_ns_});
}

TEST_F(TurnTimerTest, NeverIsNoTime) {
  timer_->arm(kNever);
  EXPECT_EQ(turns_until(end_ns_), Times{});
  timer_->arm(end_ns_ + 1);
  EXPECT_EQ(turns_until(end_ns_ + 1), Times{end_ns_ + 1});
}

TEST_F(TurnTimerTest, TimeThatHasPassedIsNowAfterWhatWasPostedBefore) {
  std::vector<std::string> order;
  in_turn_ = [&] { order.emplace_back("turn"); };
  world_.after(0, [&] { order.emplace_back("before"); });
  timer_->arm(begun_ns_ - 1);
  timer_->arm_now();
  world_.after(0, [&] { order.emplace_back("after"); });
  EXPECT_EQ(turns_, Times{}) << "not within the call";
  EXPECT_EQ(turns_until(begun_ns_), Times{begun_ns_});
  EXPECT_EQ(order, (std::vector<std::string>{"before", "turn", "after"}));
}

TEST_F(TurnTimerTest, TurnArmsTheNextOne) {
  in_turn_ = [&] {
    if (turns_.size() == 1) timer_->arm_now();
    if (turns_.size() == 2) timer_->arm(later_ns_);
  };
  timer_->arm(soon_ns_);
  EXPECT_EQ(turns_until(end_ns_), (Times{soon_ns_, soon_ns_, later_ns_}));
}

// Seeded simulations repeat only if such a turn keeps its place among the others.
TEST_F(TurnTimerTest, TurnAtTheTimeOfASupersededOneComesOnceInThatOnesPlace) {
  std::vector<std::string> order;
  in_turn_ = [&] {
    order.emplace_back("turn");
    if (turns_.size() == 1) timer_->arm(later_ns_);
  };
  timer_->arm(later_ns_);
  world_.after(later_ns_ - begun_ns_, [&] { order.emplace_back("another"); });
  timer_->arm(soon_ns_);
  EXPECT_EQ(turns_until(end_ns_), (Times{soon_ns_, later_ns_}));
  EXPECT_EQ(order, (std::vector<std::string>{"turn", "turn", "another"}));
}

TEST_F(TurnTimerTest, DisarmedTimerDoesNotCallUntilItIsArmedAgain) {
  timer_->arm(soon_ns_);
  timer_->disarm();
  EXPECT_EQ(turns_until(soon_ns_), Times{});
  timer_->arm(later_ns_);
  EXPECT_EQ(turns_until(end_ns_), Times{later_ns_});
}

TEST_F(TurnTimerTest, TimerThatHasGoneDoesNotCall) {
  timer_->arm(soon_ns_);
  timer_.reset();
  EXPECT_EQ(turns_until(end_ns_), Times{});
}

}  // namespace
}  // namespace farpage
