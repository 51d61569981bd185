// In which order a channel of shm does what is posted to it, and that it does it once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/clock.h"
#include "tests/support/posting.h"
#include "transport/shm/ring.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kBytes = 4096;

class ShmOrder : public testing::Test {
 protected:
  Operation read(uint64_t tag) const {
    Operation operation;
    operation.remote = pool_;
    operation.local_count = 1;
    operation.local[0] = local_.slice(0, kBytes);
    operation.tag = tag;
    return operation;
  }
  Operation write(uint64_t tag) const {
    Operation operation = read(tag);
    operation.kind = OperationKind::kWrite;
    operation.remote = staging_;
    return operation;
  }
  void post(const std::vector<Operation>& operations, uint64_t deadline_ns) {
    ASSERT_EQ(post_operations(*initiator_, operations, deadline_ns).accepted, operations.size());
  }
  // Polls one at a time.
  std::vector<uint64_t> tags_as_they_end(size_t count) {
    std::vector<uint64_t> tags;
    Completion one;
    while (tags.size() < count && initiator_->poll({&one, 1}) == 1) {
      EXPECT_EQ(one.outcome, Outcome::kOk);
      tags.push_back(one.tag);
    }
    return tags;
  }

  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  OfferedTarget offered_ = fabric_->offer_channel(ChannelPurpose::kStage).value();
  std::unique_ptr<Initiator> initiator_ =
      fabric_->connect(std::move(offered_.offer), kNever).value();
  Region pool_memory_ = fabric_->allocate_readable(kBytes).value();
  Region staging_memory_ = offered_.target->allocate_writable(kBytes).value();
  RemoteRegion pool_ =
      import_whole(*initiator_, fabric_->export_region(pool_memory_).value()).value();
  RemoteRegion staging_ =
      import_whole(*initiator_, fabric_->export_region(staging_memory_).value()).value();
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  Region local_ = fabric_->register_local({memory_.data(), kBytes}).value();
  const uint64_t hour_ = boottime_clock().now_ns() + 3'600 * kSecond;
};

TEST_F(ShmOrder, ReadsThatHaveLessTimeAreCopiedFirst) {
  post({read(1), read(2)}, kNever);
  post({read(3), read(4)}, hour_ + 20);
  post({read(5), read(6)}, hour_ + 10);
  post({read(7)}, hour_ + 20);
  post({read(8)}, kNever);
  EXPECT_EQ(tags_as_they_end(8), (std::vector<uint64_t>{5, 6, 3, 4, 7, 1, 2, 8}));
}

// A lane's pages have the deadlines of their fetches, and are posted together.
TEST_F(ShmOrder, OnePostOfSeveralDeadlinesIsSortedIn) {
  const auto with = [this](Operation operation, uint64_t in_ns) {
    operation.deadline_ns = hour_ + in_ns;
    return operation;
  };
  const auto post_all = [this](const std::vector<Operation>& operations) {
    ASSERT_EQ(post_operations(*initiator_, operations).accepted, operations.size());
  };
  post_all({with(read(1), 10), with(read(2), 5), with(read(3), 7), with(read(4), 5)});
  EXPECT_EQ(tags_as_they_end(4), (std::vector<uint64_t>{2, 4, 3, 1}));
  post_all({with(read(1), 30), with(read(2), 20)});
  post_all({with(read(3), 25), with(read(4), 10), with(read(5), 10), with(read(6), 40)});
  EXPECT_EQ(tags_as_they_end(6), (std::vector<uint64_t>{4, 5, 2, 3, 1, 6}));
  post_all({with(read(1), 30), with(write(2), 20), with(read(3), 10), with(read(4), 5)});
  EXPECT_EQ(tags_as_they_end(4), (std::vector<uint64_t>{1, 2, 4, 3}));
}

TEST_F(ShmOrder, WhatFollowsAWriteThatItsDeadlineHasEndedIsNotTold) {
  // The clock is looked at each 64 KiB: with the next byte.
  post(std::vector<Operation>(16, read(0)), kNever);
  ASSERT_EQ(tags_as_they_end(16).size(), 16u);
  std::array<Operation, 3> writes = {write(1), write(2), write(3)};
  writes[0].deadline_ns = writes[1].deadline_ns = 1;  // has passed
  writes[1].follows = true;
  writes[1].local_count = writes[2].local_count = 0;  // these look at no clock
  writes[1].has_immediate = writes[2].has_immediate = true;
  writes[1].immediate = 1;
  writes[2].immediate = 2;
  ASSERT_EQ(post_operations(*initiator_, writes).accepted, 3u);
  std::array<Completion, 4> ended;
  ASSERT_EQ(initiator_->poll(ended), 3u);
  EXPECT_EQ(ended[0].outcome, Outcome::kAborted);
  EXPECT_EQ(ended[1].outcome, Outcome::kAborted);
  EXPECT_EQ(ended[2].outcome, Outcome::kOk);
  std::array<uint32_t, 4> arrived;
  ASSERT_EQ(offered_.target->poll(arrived), 1u);
  EXPECT_EQ(arrived[0], 2u);
}

TEST_F(ShmOrder, TheyDoSoWhereTheRingBeginsAnew) {
  for (uint64_t i = 0; i < 1020; ++i) {
    post({read(i)}, kNever);
    ASSERT_EQ(tags_as_they_end(1), std::vector<uint64_t>{i});
  }
  post({read(1), read(2), read(3), read(4), read(5)}, kNever);
  post({read(6), read(7), read(8)}, hour_);
  EXPECT_EQ(tags_as_they_end(8), (std::vector<uint64_t>{6, 7, 8, 1, 2, 3, 4, 5}));
}

TEST_F(ShmOrder, AFullRingTakesNoMoreAndKeepsWhatItHas) {
  std::vector<Operation> many;
  for (uint64_t i = 0; i < 1022; ++i) many.push_back(read(i));
  post(many, kNever);
  const std::vector<Operation> urgent = {read(2001), read(2002), read(2003)};
  EXPECT_EQ(post_operations(*initiator_, urgent, hour_).accepted, 2u);
  const auto tags = tags_as_they_end(1024);
  ASSERT_EQ(tags.size(), 1024u);
  EXPECT_EQ(tags[0], 2001u);
  EXPECT_EQ(tags[1], 2002u);
  for (uint64_t i = 0; i < 1022; ++i) ASSERT_EQ(tags[2 + i], i);
}

// An immediate says that everything posted before it is there.
TEST_F(ShmOrder, NothingPassesAWrite) {
  post({write(1)}, kNever);
  post({write(2)}, hour_);
  post({read(3)}, hour_ - 10);
  post({read(4), write(5)}, hour_ - 20);
  EXPECT_EQ(tags_as_they_end(5), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(ShmOrder, BytesAreCopiedOnceThoughTheirImmediateWaits) {
  Completion one;
  Operation word = write(0);
  word.local_count = 0;
  word.has_immediate = true;
  for (uint32_t i = 0; i < shm::ImmediateRing::kEntries; ++i) {
    post({word}, kNever);
    ASSERT_EQ(initiator_->poll({&one, 1}), 1u);
  }
  Operation with_bytes = write(9);
  with_bytes.has_immediate = true;
  with_bytes.immediate = 4711;
  std::ranges::fill(memory_, std::byte{1});
  post({with_bytes}, kNever);
  ASSERT_EQ(initiator_->poll({&one, 1}), 0u);
  std::ranges::fill(memory_, std::byte{2});  // nobody looks here again
  ASSERT_EQ(initiator_->poll({&one, 1}), 0u);

  uint32_t arrived = 0;
  ASSERT_EQ(offered_.target->poll({&arrived, 1}), 1u);  // makes room
  ASSERT_EQ(initiator_->poll({&one, 1}), 1u);
  EXPECT_EQ(one.outcome, Outcome::kOk);
  EXPECT_EQ(one.tag, 9u);
  const std::span<const std::byte> there(staging_memory_.data(), kBytes);
  EXPECT_TRUE(std::ranges::all_of(there, [](std::byte byte) { return byte == std::byte{1}; }));
  uint32_t last = 0;
  while (offered_.target->poll({&arrived, 1}) == 1) last = arrived;
  EXPECT_EQ(last, 4711u);
}

// A place in the ring is used again: what was there before is nothing to what comes.
TEST_F(ShmOrder, TheNextOperationInThatPlaceIsCopiedAgain) {
  Completion one;
  Operation with_bytes = write(1);
  with_bytes.has_immediate = true;
  // More than once around the ring, and one immediate always waits.
  for (uint32_t i = 0; i < 2 * 1024 + shm::ImmediateRing::kEntries; ++i) {
    std::ranges::fill(memory_, static_cast<std::byte>(i % 251));
    post({with_bytes}, kNever);
    if (initiator_->poll({&one, 1}) == 0) {
      uint32_t arrived = 0;
      ASSERT_EQ(offered_.target->poll({&arrived, 1}), 1u);
      ASSERT_EQ(initiator_->poll({&one, 1}), 1u);
    }
    ASSERT_EQ(staging_memory_.data()[kBytes - 1], static_cast<std::byte>(i % 251)) << i;
  }
}

}  // namespace
}  // namespace farpage
