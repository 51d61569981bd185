// Lanes' touches, on their way through the staging that they share with puts.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tier/staging/one_staging.h"
#include "tier/staging/touch_recorder.h"

namespace farpage {
namespace {

class StagingTouches : public OneStaging {
 protected:
  using OneStaging::OneStaging;
};

TEST_F(StagingTouches, BlockIsInTheLogWithoutAnybodyWaiting) {
  std::array<uint32_t, kTouchBlockSlots> slots;
  for (uint32_t i = 0; i < kTouchBlockSlots; ++i) slots[i] = 1000 + i;
  const uint64_t before = now();
  staging_->touched(slots);
  EXPECT_EQ(now(), before);
  run_for(kSecond);
  EXPECT_EQ(log().written, kTouchBlockSlots);
  EXPECT_TRUE(std::ranges::equal(slots, std::span(log().slots).first(kTouchBlockSlots)));
}

// With nobody but its lanes to see that a write has ended.
TEST_F(StagingTouches, RingOfBlocksGoesRoundForAClientThatOnlyReads) {
  constexpr uint32_t kTold = 3 * kTouchBlocks + 2;
  for (uint32_t block = 1; block <= kTold; ++block) {
    touch(block);
    run_for(kMillisecond);
    ASSERT_EQ(log().written, block * kTouchBlockSlots);
  }
  EXPECT_EQ(log().slots[0], kTold - 1);
  EXPECT_EQ(log().slots[kTouchBlockSlots], kTold);
  EXPECT_EQ(log().slots[2 * kTouchBlockSlots], kTold - kTouchBlocks + 1);
}

TEST_F(StagingTouches, SegmentsNeverReachTheLog) {
  EXPECT_EQ(staging_->bytes(), kPutBytes);
  EXPECT_FALSE(staging_->allocate(kPutBytes + 1));
  std::ranges::fill(bytes_, std::byte{0xEE});
  for (int i = 0; i < 100; ++i) {
    const auto segment = staging_->allocate(64 * (1 + i * 373 % (kPutBytes / 64)));
    ASSERT_TRUE(segment);
    ASSERT_LE(segment->offset + segment->bytes, kPutBytes);
    ASSERT_TRUE(write(*segment, segment->bytes, kSecond).status.ok());
    staging_->release(segment->id);
  }
  const std::span whole(memory_.data() + kPutBytes, kTouchLogBytes);
  EXPECT_TRUE(std::ranges::all_of(whole, [](std::byte each) { return each == std::byte{}; }));
}

class SlowTouches : public OneStaging {
 protected:
  static constexpr uint64_t kStepNs = kMillisecond;
  SlowTouches() : OneStaging({.delay_min_ns = kStepNs, .delay_max_ns = kStepNs}) {}
};

TEST_F(SlowTouches, WhatALaneLeavesWhileAPutHasTheChannelIsWrittenByThePut) {
  world_.after(kStepNs / 2, [this] { touch(7); });
  ASSERT_TRUE(write(*staging_->allocate(64), 64, kSecond).status.ok());
  EXPECT_EQ(log().written, 0u) << "the put had the channel";
  run_for(kSecond);
  EXPECT_EQ(log().written, kTouchBlockSlots);
  EXPECT_EQ(blocks_of(7), 1);
}

TEST_F(SlowTouches, WhatFindsNoPlaceIsDroppedWithoutWaiting) {
  world_.after(kStepNs / 2, [this] {
    const uint64_t before = now();
    for (uint32_t block = 1; block <= TouchBlocks::kPlaces + 3; ++block) touch(block);
    EXPECT_EQ(now(), before);
  });
  ASSERT_TRUE(write(*staging_->allocate(64), 64, kSecond).status.ok());
  run_for(kSecond);
  EXPECT_EQ(log().written, TouchBlocks::kPlaces * kTouchBlockSlots);
  for (uint32_t block = 1; block <= TouchBlocks::kPlaces; ++block) EXPECT_EQ(blocks_of(block), 1);
}

// The bytes are taken a step after they were posted: what is written over meanwhile would arrive in
// their place.
TEST_F(SlowTouches, PlaceIsNotUsedAgainBeforeItsWritesHaveEnded) {
  uint32_t block = 0;
  for (; block < TouchBlocks::kPlaces; ++block) touch(block + 1);
  while (log().written < TouchBlocks::kPlaces * kTouchBlockSlots) {
    touch(99);
    run_for(kStepNs / 4);
  }
  for (uint32_t told = 1; told <= block; ++told) EXPECT_EQ(blocks_of(told), 1) << told;
  EXPECT_EQ(blocks_of(99), 0);
  run_for(kSecond);
  touch(100);
  run_for(kSecond);
  EXPECT_EQ(blocks_of(100), 1) << "once they have ended it is";
}

class FailingTouches : public OneStaging {
 protected:
  FailingTouches() : OneStaging({.fail = 1}) {}
};

TEST_F(FailingTouches, StagingThatFailsIsFoundBrokenByTheNextBlockAndByTheNextPut) {
  touch(1);
  run_for(kMillisecond);
  EXPECT_FALSE(staging_->broken()) << "nobody has asked it since";
  touch(2);
  EXPECT_TRUE(staging_->broken());
  EXPECT_EQ(write(*staging_->allocate(64), 64, kSecond).status.code, Code::kUnavailable);
  touch(3);
  run_for(kSecond);
  EXPECT_EQ(log().written, 0u);
}

TEST_F(StagingTouches, SilentStagingIsBrokenOnceAllPlacesHaveWaitedForL) {
  client_.part_from(node_);
  for (uint32_t block = 0; block < TouchBlocks::kPlaces; ++block) touch(block);
  run_for(kReuseNs - kMillisecond);
  touch(1);
  EXPECT_FALSE(staging_->broken());
  run_for(2 * kMillisecond);
  touch(1);
  EXPECT_TRUE(staging_->broken());
}

TEST_F(StagingTouches, LaneTellsABlockAtATime) {
  TouchRecorder recorder;
  recorder.attach(staging_);
  for (uint32_t i = 0; i + 1 < kTouchBlockSlots; ++i) EXPECT_TRUE(recorder.record(5));
  run_for(kMillisecond);
  EXPECT_EQ(log().written, 0u);
  EXPECT_TRUE(recorder.record(5));
  run_for(kMillisecond);
  EXPECT_EQ(blocks_of(5), 1);
}

TEST_F(StagingTouches, WhatALaneReadUnderOneViewIsNotToldToTheNext) {
  TouchRecorder recorder;
  EXPECT_TRUE(recorder.record(1)) << "of no view";
  recorder.attach(staging_);
  for (uint32_t i = 0; i + 1 < kTouchBlockSlots; ++i) recorder.record(1);
  recorder.attach(nullptr);
  recorder.record(2);
  recorder.attach(staging_);
  for (uint32_t i = 0; i < kTouchBlockSlots; ++i) recorder.record(3);
  run_for(kMillisecond);
  EXPECT_EQ(log().written, kTouchBlockSlots);
  EXPECT_EQ(blocks_of(3), 1);
}

}  // namespace
}  // namespace farpage
