#include "tier/staging/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "base/units.h"
#include "tests/tier/staging/one_staging.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

class StagingWrite : public OneStaging {
 protected:
  using OneStaging::OneStaging;
};

TEST_F(StagingWrite, SourcesLieOneAfterTheOtherAndThenComesTheImmediate) {
  const auto segment = staging_->allocate(64 * 5);
  ASSERT_TRUE(segment);
  const std::vector<Slice> sources = {local_.slice(0, 100), local_.slice(500, 64),
                                      local_.slice(1000, 1)};
  const auto written = staging_->write(*segment, sources, now() + kSecond);
  ASSERT_TRUE(written.status.ok());
  EXPECT_EQ(written.under_way, nullptr);
  const std::byte* at = memory_.data() + segment->offset;
  EXPECT_TRUE(std::equal(at, at + 100, bytes_.data()));
  EXPECT_TRUE(std::equal(at + 128, at + 192, bytes_.data() + 500));
  EXPECT_EQ(at[192], bytes_[1000]);
  run_for(kSecond);
  EXPECT_EQ(immediates(), std::vector{segment->immediate});
}

TEST_F(StagingWrite, MoreSourcesThanTheChannelTakesAtOnceAllArrive) {
  const auto segment = staging_->allocate(kPutBytes);
  ASSERT_TRUE(segment);
  std::vector<Slice> sources;
  for (uint64_t at = 0; at < kPutBytes; at += 64) sources.push_back(local_.slice(at, 64));
  ASSERT_GT(sources.size(), client_.capabilities().max_in_flight);
  ASSERT_TRUE(staging_->write(*segment, sources, now() + kSecond).status.ok());
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), memory_.data()));
}

TEST_F(StagingWrite, WhatMayNotBePostedIsItsCallersConcernAlone) {
  const auto first = staging_->allocate(64);
  Slice foreign = local_.slice(0, 64);
  foreign.local_key = 0xDEAD;
  const auto refused = staging_->write(*first, {&foreign, 1}, now() + kSecond);
  EXPECT_EQ(refused.status.code, Code::kInvalid);
  EXPECT_EQ(refused.under_way, nullptr);
  EXPECT_FALSE(staging_->broken());
  EXPECT_TRUE(write(*staging_->allocate(64), 64, kSecond).status.ok());
}

// Wherever it stands among the sources, and however many the channel takes at once.
TEST_F(StagingWrite, WriteWithASourceThatIsNotRegisteredIsNeverAnnounced) {
  const size_t most = client_.capabilities().max_in_flight;
  for (const size_t foreign : {size_t{0}, most / 2, most - 1, most, most + 1, most + 7}) {
    std::vector<Slice> sources(most + 8, local_.slice(0, 64));
    sources[foreign].local_key = 0xDEAD;
    const auto segment = staging_->allocate(64 * sources.size());
    ASSERT_TRUE(segment);
    const auto refused = staging_->write(*segment, sources, now() + kSecond);
    EXPECT_EQ(refused.status.code, Code::kInvalid) << foreign;
    EXPECT_EQ(refused.under_way, nullptr);
    staging_->release(segment->id);
  }
  const auto next = staging_->allocate(64);
  EXPECT_TRUE(write(*next, 64, kSecond).status.ok());
  run_for(kSecond);
  EXPECT_EQ(immediates(), std::vector{next->immediate});
  EXPECT_FALSE(staging_->broken());
}

// Each step of a write takes a millisecond.
class SlowStaging : public OneStaging {
 protected:
  static constexpr uint64_t kStepNs = kMillisecond;
  SlowStaging() : OneStaging({.delay_min_ns = kStepNs, .delay_max_ns = kStepNs}) {}
};

TEST_F(SlowStaging, LateWriteIsLateAtItsDeadlineAndTheChannelLives) {
  const auto late = staging_->allocate(kPutBytes - 64);
  const uint64_t start = now();
  const auto written = write(*late, kPutBytes - 64, kStepNs / 2);
  EXPECT_EQ(written.status.code, Code::kTimeout);
  EXPECT_EQ(now(), start + kStepNs / 2);
  ASSERT_NE(written.under_way, nullptr);
  EXPECT_FALSE(written.under_way->ended()) << "its bytes have not even been taken";

  const auto next = staging_->allocate(64);
  ASSERT_TRUE(next);
  EXPECT_TRUE(write(*next, 64, kSecond).status.ok());
  EXPECT_TRUE(written.under_way->ended()) << "who writes looks after what stands in front";
  EXPECT_FALSE(staging_->broken());
  EXPECT_EQ(immediates(), (std::vector{late->immediate, next->immediate}));
}

// Neither its bytes nor its counter serve anybody else while they may still change.
TEST_F(SlowStaging, SegmentOfALateWriteIsFreeOnceTheWriteHasEnded) {
  const auto written = write(*staging_->allocate(kPutBytes), kPutBytes, kStepNs / 2);
  ASSERT_NE(written.under_way, nullptr);
  while (!written.under_way->ended()) {
    EXPECT_FALSE(staging_->allocate(64));
    ASSERT_TRUE(staging_->drive(now() + kStepNs));
  }
  EXPECT_TRUE(staging_->allocate(kPutBytes));
  EXPECT_FALSE(staging_->broken());
}

// Of more sources than the channel takes at once the last have not been posted by then.
TEST_F(SlowStaging, WriteThatWasCutShortIsNeverAnnounced) {
  const auto segment = staging_->allocate(kPutBytes);
  const std::vector<Slice> sources(kPutBytes / 64, local_.slice(0, 64));
  ASSERT_GT(sources.size(), client_.capabilities().max_in_flight);
  const auto cut = staging_->write(*segment, sources, now() + kStepNs / 2);
  ASSERT_EQ(cut.status.code, Code::kTimeout);
  ASSERT_NE(cut.under_way, nullptr);
  while (!cut.under_way->ended()) staging_->drive(now() + kStepNs);
  run_for(kSecond);
  EXPECT_TRUE(immediates().empty());
  EXPECT_FALSE(staging_->broken());
}

// After a while without a look nobody can say that the channel was silent.
TEST_F(SlowStaging, WhoComesLateFindsNothingHopeless) {
  const auto written = write(*staging_->allocate(64), 64, kStepNs / 2);
  ASSERT_NE(written.under_way, nullptr);
  run_for(10 * kReuseNs);
  EXPECT_TRUE(staging_->drive(now()));
  EXPECT_TRUE(written.under_way->ended());
  EXPECT_FALSE(staging_->broken());
}

class SilentStaging : public OneStaging {
 protected:
  SilentStaging() { client_.part_from(node_); }
};

TEST_F(SilentStaging, EndsOnceNothingWasHeardForLAndReadsTheSourcesNoMore) {
  const uint64_t deadline = now() + kMillisecond;
  const auto written = write(*staging_->allocate(64), 64, kMillisecond);
  EXPECT_EQ(written.status.code, Code::kTimeout);
  EXPECT_EQ(now(), deadline);
  ASSERT_NE(written.under_way, nullptr);
  while (now() < deadline + kReuseNs) {
    ASSERT_FALSE(written.under_way->ended());
    ASSERT_FALSE(staging_->broken());
    ASSERT_TRUE(staging_->drive(now() + kMillisecond));
  }
  staging_->drive(now());
  EXPECT_TRUE(staging_->broken());
  EXPECT_TRUE(written.under_way->ended());
  client_.heal_to(node_);
  const std::vector<std::byte> then(memory_.data(), memory_.data() + 64);
  std::ranges::fill(bytes_, std::byte{0xEE});
  run_for(10 * kSecond);
  EXPECT_TRUE(std::equal(then.begin(), then.end(), memory_.data()));
}

TEST_F(SilentStaging, WhoHasNotLookedHasSeenNoSilence) {
  const auto written = write(*staging_->allocate(64), 64, kMillisecond);
  run_for(10 * kReuseNs);
  const uint64_t from = now();
  staging_->drive(now());
  while (!staging_->broken() && now() < from + 2 * kReuseNs) staging_->drive(now() + kMillisecond);
  EXPECT_TRUE(staging_->broken());
  EXPECT_GE(now(), from + kReuseNs / 2);
  EXPECT_TRUE(written.under_way->ended());
}

// However seldom that is.
TEST_F(SilentStaging, WhoLooksSeldomGivesItUpToo) {
  const auto written = write(*staging_->allocate(64), 64, kMillisecond);
  for (int look = 0; look < 6; ++look) {
    run_for(kReuseNs);
    staging_->drive(now());
  }
  EXPECT_TRUE(staging_->broken());
  EXPECT_TRUE(written.under_way->ended());
}

TEST_F(SilentStaging, IsFoundOutByWhoeverWritesNext) {
  const uint64_t deadline = now() + kMillisecond;
  const auto late = write(*staging_->allocate(64), 64, kMillisecond);
  const auto next = write(*staging_->allocate(64), 64, kSecond);
  EXPECT_EQ(next.status.code, Code::kUnavailable);
  EXPECT_EQ(next.under_way, nullptr);
  EXPECT_EQ(now(), deadline + kReuseNs);
  EXPECT_TRUE(late.under_way->ended());
  EXPECT_EQ(write(*staging_->allocate(64), 64, kSecond).status.code, Code::kUnavailable);
}

// Its copies stop at the deadline by themselves.
class ShmStaging : public testing::Test {
 protected:
  static constexpr uint64_t kPutBytes = 64 * kMiB;

  ShmStaging() {
    auto offered = node_->offer_channel(ChannelPurpose::kStage).value();
    target_ = std::move(offered.target);
    memory_ = target_->allocate_writable(kPutBytes + kTouchLogBytes).value();
    staging_ =
        Staging::connect(*client_, std::move(offered.offer), node_->export_region(memory_).value(),
                         boottime_clock(), kSecond, kNever)
            .value();
  }
  Staging::Written write(const Staging::Segment& segment, uint64_t bytes, uint64_t in_ns) {
    const std::vector<Slice> sources(bytes / (64 * kKiB), local_.slice(0, 64 * kKiB));
    return staging_->write(segment, sources, boottime_clock().now_ns() + in_ns);
  }

  std::unique_ptr<Fabric> node_ = shm::make_shm_fabric();
  std::unique_ptr<Fabric> client_ = shm::make_shm_fabric();
  std::unique_ptr<Target> target_;
  Region memory_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(64 * kKiB, std::byte{7});
  Region local_ = client_->register_local({bytes_.data(), bytes_.size()}).value();
  std::shared_ptr<Staging> staging_;
};

TEST_F(ShmStaging, WriteThatTheBackendEndsAtItsDeadlineBreaksNothing) {
  const auto segment = staging_->allocate(kPutBytes);
  const auto late = write(*segment, kPutBytes, 100 * kMicrosecond);
  EXPECT_EQ(late.status.code, Code::kTimeout);
  EXPECT_EQ(late.under_way, nullptr) << "no copy goes on";
  EXPECT_FALSE(staging_->broken());
  staging_->release(segment->id);
  const auto next = staging_->allocate(64 * kKiB);
  ASSERT_TRUE(next);
  EXPECT_TRUE(write(*next, 64 * kKiB, 10 * kSecond).status.ok());
  std::array<uint32_t, 4> immediates = {};
  const size_t count = target_->poll(immediates);
  ASSERT_GT(count, 0u);
  EXPECT_EQ(immediates[count - 1], next->immediate);
}

TEST_F(ShmStaging, LanesAndPutsOfManyThreadsShareTheChannel) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> lanes;
  for (uint32_t lane = 1; lane <= 2; ++lane) {
    lanes.emplace_back([&, lane] {
      const std::vector<uint32_t> block(kTouchBlockSlots, lane);
      while (!stop) staging_->touched(std::span(block).first<kTouchBlockSlots>());
    });
  }
  std::vector<std::thread> puts;
  std::atomic<int> written = 0;
  for (int thread = 0; thread < 2; ++thread) {
    puts.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto segment = staging_->allocate(64 * kKiB);
        for (; !segment; segment = staging_->allocate(64 * kKiB)) std::this_thread::yield();
        written += write(*segment, 64 * kKiB, 60 * kSecond).status.ok() ? 1 : 0;
        staging_->release(segment->id);
      }
    });
  }
  for (auto& put : puts) put.join();
  stop = true;
  for (auto& lane : lanes) lane.join();
  EXPECT_EQ(written, 400);
  const auto& log = *reinterpret_cast<const TouchLog*>(memory_.data() + kPutBytes);
  EXPECT_GT(log.written, 0u);
  EXPECT_EQ(log.written % kTouchBlockSlots, 0u);
  for (uint32_t at = 0; at < kTouchRingSlots && at < log.written; ++at) {
    const uint32_t first = log.slots[at - at % kTouchBlockSlots];
    ASSERT_TRUE(first == 1 || first == 2);
    ASSERT_EQ(log.slots[at], first) << at;
  }
}

}  // namespace
}  // namespace farpage
