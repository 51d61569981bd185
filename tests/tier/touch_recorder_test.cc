#include "tier/touch_recorder.h"

#include <gtest/gtest.h>

#include "transport/sim/sim_fabric.h"
#include "transport/sim/world.h"

namespace farpage {
namespace {

class TouchRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override { attach(); }

  void attach() {
    auto offered = node_.offer_channel(ChannelPurpose::kStage).value();
    target_ = std::move(offered.target);
    log_region_ = target_->allocate_writable(sizeof(TouchLog)).value();
    auto initiator = client_.connect(std::move(offered.offer), kNever).value();
    const RemoteRegion remote =
        initiator->import_region(node_.export_region(log_region_).value()).value();
    recorder_.attach(std::move(initiator), remote, &buffer_, local_.slice(0, sizeof buffer_));
  }
  const TouchLog& log() const { return *reinterpret_cast<const TouchLog*>(log_region_.data()); }
  void record(uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) recorder_.record(first + i);
  }
  void pass_time() { world_.run_until(world_.now_ns() + kSecond); }

  sim::World world_{1};
  sim::SimFabric node_{world_, {}};
  sim::SimFabric client_{world_, {}};
  std::unique_ptr<Target> target_;
  Region log_region_;
  TouchRecorder::Buffer buffer_{};
  Region local_ =
      client_.register_local({reinterpret_cast<std::byte*>(&buffer_), sizeof buffer_}).value();
  TouchRecorder recorder_;
};

TEST_F(TouchRecorderTest, BlockIsWrittenWhenItIsFull) {
  record(1000, kTouchBlockSlots - 1);
  pass_time();
  EXPECT_EQ(log().written, 0u);
  recorder_.record(7);
  pass_time();
  ASSERT_EQ(log().written, kTouchBlockSlots);
  EXPECT_EQ(log().slots[0], 1000u);
  EXPECT_EQ(log().slots[kTouchBlockSlots - 1], 7u);
}

TEST_F(TouchRecorderTest, WhatComesWhileABlockIsOnItsWayIsDropped) {
  record(0, kTouchBlockSlots);
  record(5000, 10);  // nothing has moved since
  pass_time();
  recorder_.record(5000);  // dropped as well, but sees that the write has ended
  record(6000, kTouchBlockSlots);
  pass_time();
  ASSERT_EQ(log().written, 2 * kTouchBlockSlots);
  EXPECT_EQ(log().slots[kTouchBlockSlots], 6000u);
}

TEST_F(TouchRecorderTest, RingOfBlocksGoesRound) {
  for (uint64_t block = 0; block < kTouchBlocks + 1; ++block) {
    record(block * 1000, kTouchBlockSlots);
    pass_time();
    recorder_.record(0);
  }
  EXPECT_EQ(log().written, (kTouchBlocks + 1) * kTouchBlockSlots);
  EXPECT_EQ(log().slots[0], kTouchBlocks * 1000);
  EXPECT_EQ(log().slots[kTouchBlockSlots], 1000u);
}

TEST_F(TouchRecorderTest, WhatItsChannelStillCarriesIsNoNextChannelsConcern) {
  record(0, kTouchBlockSlots);
  const std::unique_ptr<Initiator> former = recorder_.detach();
  record(0, kTouchBlockSlots);  // belongs nowhere
  attach();
  record(2000, kTouchBlockSlots);
  pass_time();
  EXPECT_EQ(log().written, kTouchBlockSlots);
  EXPECT_EQ(log().slots[0], 2000u);
}

TEST_F(TouchRecorderTest, ChannelThatTakesNothingAnyMoreIsBroken) {
  client_.set_options({.fail = 1});
  record(0, kTouchBlockSlots);
  pass_time();
  EXPECT_FALSE(recorder_.broken()) << "nobody has asked it since";
  recorder_.record(0);
  record(0, kTouchBlockSlots);
  EXPECT_TRUE(recorder_.broken());
  client_.set_options({});
  (void)recorder_.detach();
  attach();
  EXPECT_FALSE(recorder_.broken());
}

TEST_F(TouchRecorderTest, WithoutAChannelNothingHappens) {
  TouchRecorder detached;
  detached.record(1);
  EXPECT_EQ(detached.detach(), nullptr);
}

}  // namespace
}  // namespace farpage
