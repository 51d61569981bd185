// Copies from a pool that nobody but the test writes.

#include "client/gpu/straight_copies.h"

#include <array>
#include <thread>

#include "base/clock.h"
#include "integrity/crc32c.h"
#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr uint32_t kPages = 3;

class StraightCopiesTest : public FakeDriverTest {
 protected:
  StraightCopiesTest() {
    auto mapping = std::make_shared<Mapping>(Mapping::anonymous(kPages * kBytes).value());
    bytes_ = {mapping->data(), mapping->bytes()};
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i / kBytes + i);
    source_ = copies_.open(std::move(mapping));
    while (!source_->is_ready) std::this_thread::yield();
    on_gpu_ = allocate(kPages * kBytes);
  }
  ~StraightCopiesTest() override {
    source_.reset();
    EXPECT_EQ(driver_.free(on_gpu_), cuda::kSuccess);
  }

  PageCopy copy(uint32_t page) const {
    const std::byte* const data = bytes_.data() + page * kBytes;
    return {.payload = {data, kBytes, crc32c(0, data, kBytes), page},
            .to = on_gpu_ + page * kBytes,
            .verify = true,
            .deadline_ns = kNever,
            .source = source_};
  }
  CheckEnd::Outcome end_of(const PageCopy& copy) {
    copies_.begin(copy);
    CheckEnd end;
    while (copies_.poll({&end, 1}) == 0) std::this_thread::yield();
    EXPECT_EQ(end.tag, copy.payload.tag);
    return end.outcome;
  }
  bool is_there(uint32_t page) const {
    std::vector<std::byte> seen(kBytes);
    EXPECT_EQ(fake_->peek(on_gpu_ + page * kBytes, seen.data(), kBytes), cuda::kSuccess);
    return std::equal(seen.begin(), seen.end(), bytes_.begin() + page * kBytes);
  }

  std::shared_ptr<const cuda::GpuContext> gpu_ = cuda::GpuContext::retain(driver_, 0).value();
  cuda::CopyQueue queue_ = cuda::CopyQueue::make(gpu_, StraightCopies::kBatches).value();
  LastHop last_hop_;
  StraightCopies copies_{queue_, 0, boottime_clock(), last_hop_};
  std::span<std::byte> bytes_;
  std::shared_ptr<CopySource> source_;
  uint64_t on_gpu_ = 0;
};

TEST_F(StraightCopiesTest, PayloadIsThereWhenItsCopyIsGood) {
  EXPECT_EQ(end_of(copy(1)), CheckEnd::Outcome::kGood);
  EXPECT_TRUE(is_there(1));
  EXPECT_FALSE(is_there(0));
}

TEST_F(StraightCopiesTest, PayloadWithAnotherCrcIsNotCopied) {
  PageCopy damaged = copy(0);
  ++damaged.payload.crc;
  EXPECT_EQ(end_of(damaged), CheckEnd::Outcome::kBad);
  EXPECT_FALSE(is_there(0));
  damaged.verify = false;
  EXPECT_EQ(end_of(damaged), CheckEnd::Outcome::kGood);
  EXPECT_TRUE(is_there(0));
}

TEST_F(StraightCopiesTest, NoCopyIsStartedAtItsDeadline) {
  PageCopy late = copy(0);
  late.deadline_ns = boottime_clock().now_ns();
  EXPECT_EQ(end_of(late), CheckEnd::Outcome::kFailed);
  EXPECT_FALSE(is_there(0));
}

TEST_F(StraightCopiesTest, RefusedCopyHasAnEndAndTheNextOneIsGood) {
  fake_->fail_call("cuMemcpyHtoDAsync_v2", 1, cuda::kInvalidValue);
  EXPECT_EQ(end_of(copy(0)), CheckEnd::Outcome::kFailed);
  EXPECT_EQ(end_of(copy(0)), CheckEnd::Outcome::kGood);
}

TEST_F(StraightCopiesTest, SourceStaysRegisteredUntilItsCopyHasEnded) {
  fake_->hold(nullptr);
  copies_.begin(copy(2));
  std::array<CheckEnd, kPages> ends;
  EXPECT_EQ(copies_.poll(ends), 0u);
  source_.reset();
  EXPECT_EQ(fake_->live().host_ranges, 1);
  fake_->release(nullptr);
  while (copies_.poll(ends) == 0) std::this_thread::yield();
  EXPECT_EQ(ends[0].outcome, CheckEnd::Outcome::kGood);
  while (fake_->live().host_ranges > 0) std::this_thread::yield();
}

// As many as a lane has under way, each with an end of its own.
TEST_F(StraightCopiesTest, EveryCopyOfAFullWindowHasOneEnd) {
  for (int round = 0; round < 3; ++round) {
    std::array<int, StraightCopies::kBatches> ended = {};
    for (uint32_t tag = 0; tag < ended.size(); ++tag) {
      PageCopy next = copy(tag % kPages);
      next.payload.tag = tag;
      next.payload.crc += tag % 5 == 0 ? 1 : 0;
      copies_.begin(next);
      if (tag % 2 == 0) continue;
      std::array<CheckEnd, 0> none;
      EXPECT_EQ(copies_.poll(none), 0u);
    }
    std::array<CheckEnd, 7> ends;
    for (size_t count = 0; count < ended.size();) {
      const size_t polled = copies_.poll(ends);
      count += polled;
      for (size_t i = 0; i < polled; ++i) {
        ++ended[ends[i].tag];
        EXPECT_EQ(ends[i].outcome == CheckEnd::Outcome::kBad, ends[i].tag % 5 == 0);
      }
    }
    for (const int times : ended) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace farpage
