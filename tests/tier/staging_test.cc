#include "tier/staging.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "transport/sim/sim_fabric.h"
#include "transport/sim/world.h"
#include "transport/transfer_counters.h"

namespace farpage {
namespace {

Staging ring_of(uint64_t bytes) {
  return Staging(nullptr, RemoteRegion{.bytes = bytes});
}

// Live segments never share a byte, stay inside the ring at multiples of 64, and never share an
// immediate; and what has been released can be had again.
RC_GTEST_PROP(StagingRing, LiveSegmentsNeverOverlap, ()) {
  const auto ring_bytes = *rc::gen::inRange<uint64_t>(1, 4096);
  Staging staging = ring_of(ring_bytes);
  std::map<uint64_t, Staging::Segment> live;
  uint64_t last_id = 0;
  const auto steps = *rc::gen::container<std::vector<uint32_t>>(rc::gen::arbitrary<uint32_t>());
  for (const uint32_t step : steps) {
    if (step % 3 == 0 && !live.empty()) {
      auto victim = live.begin();
      std::advance(victim, step / 3 % live.size());
      staging.release(victim->first);
      live.erase(victim);
      continue;
    }
    const uint64_t bytes = step / 3 % 700;
    const auto segment = staging.allocate(bytes);
    if (!segment) continue;
    RC_ASSERT(segment->id > last_id);
    last_id = segment->id;
    RC_ASSERT(segment->bytes >= bytes);
    RC_ASSERT(segment->offset % 64 == 0);
    RC_ASSERT(segment->offset + segment->bytes <= ring_bytes);
    for (const auto& [id, other] : live) {
      RC_ASSERT(segment->offset + segment->bytes <= other.offset ||
                other.offset + other.bytes <= segment->offset);
      RC_ASSERT(segment->immediate != other.immediate);
    }
    live.emplace(segment->id, *segment);
  }
  for (const auto& [id, segment] : live) staging.release(id);
  RC_ASSERT(ring_bytes < 64 || staging.allocate(ring_bytes / 64 * 64).has_value());
}

TEST(Staging, FullRingTakesMoreOnlyWhenTheOldestIsReleased) {
  Staging staging = ring_of(256);
  const auto first = staging.allocate(128);
  const auto second = staging.allocate(128);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(staging.allocate(1));
  staging.release(second->id);
  EXPECT_FALSE(staging.allocate(1));  // the ring is freed in its own order
  staging.release(first->id);
  EXPECT_TRUE(staging.allocate(256));
}

TEST(Staging, NothingLongerThanTheRing) {
  Staging staging = ring_of(256);
  EXPECT_FALSE(staging.allocate(257));
  EXPECT_TRUE(staging.allocate(256));
}

// Protocol rule 16: a counter serves its next transfer only after the node has answered for the
// last one, so no more may be out than half of the counters.
TEST(Staging, NoMoreSegmentsThanCountersAllow) {
  Staging staging = ring_of(uint64_t{1} << 30);
  std::vector<uint64_t> ids;
  while (const auto segment = staging.allocate(64)) ids.push_back(segment->id);
  EXPECT_EQ(ids.size(), kTransferCounters / 2);
  staging.release(ids.front());
  EXPECT_TRUE(staging.allocate(64));
  EXPECT_FALSE(staging.allocate(64));
}

TEST(Staging, ImmediateOfACounterGrowsByOneGeneration) {
  Staging staging = ring_of(64);
  std::map<uint32_t, uint32_t> generations;
  for (uint32_t i = 0; i < 3 * kTransferCounters; ++i) {
    const auto segment = staging.allocate(64);
    ASSERT_TRUE(segment);
    const uint32_t counter = segment->immediate % kTransferCounters;
    const uint32_t generation = segment->immediate >> kTransferCounterBits;
    EXPECT_TRUE(!generations.contains(counter) || generation == generations[counter] + 1);
    generations[counter] = generation;
    staging.release(segment->id);
  }
  EXPECT_EQ(generations.size(), kTransferCounters);
}

class StagingWrite : public ::testing::Test {
 protected:
  explicit StagingWrite(const sim::SimOptions& options = {})
      : node_(world_, {}), client_(world_, options) {
    auto offered = node_.offer_channel(ChannelPurpose::kStage).value();
    target_ = std::move(offered.target);
    memory_ = target_->allocate_writable(4096).value();
    auto initiator = client_.connect(std::move(offered.offer), kNever).value();
    const RemoteRegion remote =
        initiator->import_region(node_.export_region(memory_).value()).value();
    staging_ = std::make_unique<Staging>(std::move(initiator), remote);
    local_ = client_.register_local({bytes_.data(), bytes_.size()}).value();
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 + i / 256);
  }

  sim::World world_{1};
  sim::SimFabric node_;
  sim::SimFabric client_;
  std::unique_ptr<Target> target_;
  Region memory_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(4096);
  Region local_;
  std::unique_ptr<Staging> staging_;
};

TEST_F(StagingWrite, SourcesLieOneAfterTheOtherAndThenComesTheImmediate) {
  const auto segment = staging_->allocate(64 * 5);
  ASSERT_TRUE(segment);
  const std::vector<Slice> sources = {local_.slice(0, 100), local_.slice(500, 64),
                                      local_.slice(1000, 1)};
  const uint64_t deadline = world_.now_ns() + kSecond;
  ASSERT_TRUE(staging_->write(*segment, sources, world_.clock(), deadline).ok());
  const std::byte* at = memory_.data() + segment->offset;
  EXPECT_TRUE(std::equal(at, at + 100, bytes_.data()));
  EXPECT_TRUE(std::equal(at + 128, at + 192, bytes_.data() + 500));
  EXPECT_EQ(at[192], bytes_[1000]);
  world_.run_until(deadline);
  uint32_t immediate = 0;
  ASSERT_EQ(target_->poll({&immediate, 1}), 1u);
  EXPECT_EQ(immediate, segment->immediate);
}

TEST_F(StagingWrite, MoreSourcesThanTheChannelTakesAtOnceAllArrive) {
  const auto segment = staging_->allocate(4096);
  ASSERT_TRUE(segment);
  std::vector<Slice> sources;
  for (int i = 0; i < 64; ++i) sources.push_back(local_.slice(static_cast<uint64_t>(i) * 64, 64));
  const uint64_t deadline = world_.now_ns() + kSecond;
  ASSERT_TRUE(staging_->write(*segment, sources, world_.clock(), deadline).ok());
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), memory_.data()));
}

class StagingThatStalls : public StagingWrite {
 protected:
  StagingThatStalls() : StagingWrite({.loss = 1}) {}
};

TEST_F(StagingThatStalls, EndsAtTheDeadlineAndReadsTheSourcesNoMore) {
  const auto segment = staging_->allocate(64);
  const Slice source = local_.slice(0, 64);
  const uint64_t deadline = world_.now_ns() + kMillisecond;
  const Status status = staging_->write(*segment, {&source, 1}, world_.clock(), deadline);
  EXPECT_EQ(status.code, Code::kAborted);  // of no more use: its channel had to be closed
  EXPECT_GE(world_.now_ns(), deadline);
  EXPECT_LE(world_.now_ns(), deadline + 10 * kMicrosecond);  // the flush
  const std::vector<std::byte> then(memory_.data(), memory_.data() + 64);
  std::ranges::fill(bytes_, std::byte{0xEE});
  world_.run_until(deadline + 10 * kSecond);
  EXPECT_TRUE(std::equal(then.begin(), then.end(), memory_.data()));
}

}  // namespace
}  // namespace farpage
