// The queue of copies over the fake: when a batch is over, and when nobody knows.

#include "transport/cuda/copies/copy_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"
#include "transport/cuda/recorded_event.h"

namespace farpage::cuda {
namespace {

constexpr size_t kBytes = 4096;
constexpr int kAssert = 710;  // it ends a context, and the fake's goes on
constexpr std::array kOpenErrors = {kInvalidContext, 214, kInvalidHandle, 802, 999};

class CopyQueueOverFake : public FakeDriverTest {
 protected:
  CopyQueueOverFake() {
    from_ = pin(kBytes);
    std::fill_n(from_, kBytes, std::byte{0x3C});
    to_ = allocate(kBytes);
    queue_.emplace(CopyQueue::make(GpuContext::retain(driver_, 0).value(), 2).value());
    EXPECT_TRUE(queue_->take_thread());
  }
  ~CopyQueueOverFake() override {
    fake_->release(nullptr);
    while (fake_->live().operations > 0) std::this_thread::yield();
    queue_.reset();
    EXPECT_EQ(driver_.free_host(from_), kSuccess);
    EXPECT_EQ(driver_.free(to_), kSuccess);
  }

  void start() {
    const Copy copy = {from_, to_, kBytes};
    queue_->start(0, CopyTo::kDevice, {&copy, 1});
  }
  BatchState poll_and_fail(int result) {
    fake_->fail_call("cuEventQuery", 1, result);
    return queue_->poll(0);
  }
  BatchState end_of_batch() {
    BatchState state = queue_->poll(0);
    while (state == BatchState::kUnderWay) {
      std::this_thread::yield();
      state = queue_->poll(0);
    }
    return state;
  }
  bool has_arrived() const {
    std::vector<std::byte> seen(kBytes);
    EXPECT_EQ(fake_->peek(to_, seen.data(), kBytes), kSuccess);
    return std::ranges::all_of(seen, [](std::byte b) { return b == std::byte{0x3C}; });
  }

  std::byte* from_ = nullptr;
  uint64_t to_ = 0;
  std::optional<CopyQueue> queue_;
};

TEST_F(CopyQueueOverFake, ABatchIsOverOnceItsEventHasPassed) {
  fake_->hold(nullptr);
  start();
  EXPECT_EQ(queue_->poll(0), BatchState::kUnderWay);
  EXPECT_FALSE(has_arrived());
  fake_->release(nullptr);
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(has_arrived());
}

// In places that no two lie together.
struct Scattered {
  static constexpr size_t kCopies = 4;
  static constexpr size_t kPiece = kBytes / kCopies;

  std::vector<Copy> copies(std::byte* host, uint64_t device) const {
    std::vector<Copy> copies;
    for (size_t i = 0; i < kCopies; ++i) {
      copies.push_back({host + i * kPiece, device + (kCopies - 1 - i) * kPiece, kPiece});
    }
    return copies;
  }
};

TEST_F(CopyQueueOverFake, CopiesThatDoNotLieTogetherAreOneCall) {
  const auto copies = Scattered().copies(from_, to_);
  queue_->start(0, CopyTo::kDevice, copies);
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(has_arrived());
  std::fill_n(from_, kBytes, std::byte{0});
  queue_->start(0, CopyTo::kHost, copies);
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(std::all_of(from_, from_ + kBytes, [](std::byte b) { return b == std::byte{0x3C}; }));
  EXPECT_EQ(fake_->calls("cuMemcpyBatchAsync_v2"), 2u);
  EXPECT_EQ(fake_->calls("cuMemcpyHtoDAsync_v2") + fake_->calls("cuMemcpyDtoHAsync_v2"), 0u);
}

TEST_F(CopyQueueOverFake, ManyCopiesThatDoNotLieTogetherAllArriveInFewCalls) {
  constexpr size_t kPiece = 16;
  constexpr size_t kCopies = kBytes / kPiece;
  std::vector<Copy> copies;
  for (size_t i = 0; i < kCopies; ++i) {
    copies.push_back({from_ + i * kPiece, to_ + (kCopies - 1 - i) * kPiece, kPiece});
  }
  ASSERT_EQ(copies.size(), kCopies);
  queue_->start(0, CopyTo::kDevice, copies);
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(has_arrived());
  EXPECT_EQ(fake_->calls("cuMemcpyBatchAsync_v2"), kCopies / 64);
}

// As drivers before CUDA 13.
TEST_F(CopyQueueOverFake, ADriverThatTakesNoBatchesGetsEachCopy) {
  Driver older = driver_;
  older.copy_batch = nullptr;
  queue_.emplace(CopyQueue::make(GpuContext::retain(older, 0).value(), 2).value());
  EXPECT_TRUE(queue_->take_thread());
  queue_->start(0, CopyTo::kDevice, Scattered().copies(from_, to_));
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(has_arrived());
  EXPECT_EQ(fake_->calls("cuMemcpyHtoDAsync_v2"), Scattered::kCopies);
}

// Memory that goes on may be of two allocations, across which a driver need not copy.
TEST_F(CopyQueueOverFake, ACopyThatGoesOnIsAPartOfTheOneBeforeUnlessItIsToStandApart) {
  constexpr uint64_t kHalf = kBytes / 2;
  for (const bool is_apart : {false, true}) {
    const uint64_t before = fake_->calls("cuMemcpyHtoDAsync_v2");
    queue_->begin(0, CopyTo::kDevice);
    queue_->add({from_, to_, kHalf});
    const Copy next = {from_ + kHalf, to_ + kHalf, kHalf};
    is_apart ? queue_->add_apart(next) : queue_->add(next);
    queue_->end();
    EXPECT_EQ(end_of_batch(), BatchState::kCopied);
    EXPECT_TRUE(has_arrived());
    EXPECT_EQ(fake_->calls("cuMemcpyHtoDAsync_v2") - before, is_apart ? 0u : 1u);
  }
  EXPECT_EQ(fake_->calls("cuMemcpyBatchAsync_v2"), 1u);
}

TEST_F(CopyQueueOverFake, ABatchThatTheDriverRefusesAsAWholeHasFailed) {
  fake_->fail_call("cuMemcpyBatchAsync_v2", 1, kInvalidValue);
  queue_->start(0, CopyTo::kDevice, Scattered().copies(from_, to_));
  EXPECT_EQ(end_of_batch(), BatchState::kFailed);
  EXPECT_NE(queue_->why().find("cuMemcpyBatchAsync"), std::string::npos);
  queue_->start(0, CopyTo::kDevice, Scattered().copies(from_, to_));
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(has_arrived());
}

// Its copies may still write.
TEST_F(CopyQueueOverFake, ABatchStaysUnderWayAfterAnErrorThatLeavesItOpen) {
  for (const int result : kOpenErrors) {
    fake_->hold(nullptr);
    start();
    EXPECT_EQ(poll_and_fail(result), BatchState::kUnderWay) << result;
    EXPECT_FALSE(queue_->is_broken()) << result;
    fake_->release(nullptr);
    EXPECT_EQ(end_of_batch(), BatchState::kCopied) << result;
  }
}

TEST_F(CopyQueueOverFake, ABatchIsOverAtOnceAfterAnErrorThatEndsTheContext) {
  fake_->hold(nullptr);
  start();
  EXPECT_EQ(poll_and_fail(kAssert), BatchState::kFailed);
  EXPECT_TRUE(queue_->is_broken());
  EXPECT_THAT(queue_->why(), testing::HasSubstr("cuEventQuery"));
}

TEST_F(CopyQueueOverFake, AContextThatSaysNothingElseForLongHasEnded) {
  constexpr uint64_t kStart = 7 * kSecond;
  fake_->hold(nullptr);
  start();
  for (const uint64_t after : {uint64_t{0}, CopyQueue::kDoubtNs / 2, CopyQueue::kDoubtNs - 1}) {
    EXPECT_EQ(poll_and_fail(999), BatchState::kUnderWay) << after;
    queue_->look_at_doubts(kStart + after);
    EXPECT_FALSE(queue_->is_broken()) << after;
  }
  EXPECT_EQ(poll_and_fail(999), BatchState::kUnderWay);
  queue_->look_at_doubts(kStart + CopyQueue::kDoubtNs);
  EXPECT_EQ(queue_->poll(0), BatchState::kFailed);
}

TEST_F(CopyQueueOverFake, AnEventThatIsRefusedForLongEndsTheWaitToo) {
  fake_->hold(nullptr);
  fake_->fail_call("cuEventRecord", 1, 802);
  start();
  for (const uint64_t now_ns : {kSecond, kSecond + CopyQueue::kDoubtNs}) {
    fake_->fail_call("cuEventRecord", 1, 802);
    EXPECT_EQ(queue_->poll(0), BatchState::kUnderWay);
    queue_->look_at_doubts(now_ns);
  }
  EXPECT_EQ(queue_->poll(0), BatchState::kFailed);
}

TEST_F(CopyQueueOverFake, AnyOtherAnswerBeginsTheDoubtAnew) {
  fake_->hold(nullptr);
  start();
  poll_and_fail(999);
  queue_->look_at_doubts(kSecond);
  EXPECT_EQ(queue_->poll(0), BatchState::kUnderWay);  // "not ready" is an answer
  queue_->look_at_doubts(2 * kSecond);
  poll_and_fail(999);
  queue_->look_at_doubts(2 * kSecond + 1);
  EXPECT_FALSE(queue_->is_broken());
  fake_->release(nullptr);
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
}

// One batch is never answered for, and the other is under way.
TEST_F(CopyQueueOverFake, AnAnswerForAnyBatchIsOne) {
  fake_->hold(nullptr);
  start();
  const Copy copy = {from_, to_, kBytes};
  queue_->start(1, CopyTo::kDevice, {&copy, 1});
  for (uint64_t now_ns = kSecond; now_ns <= 4 * kSecond; now_ns += kSecond / 2) {
    EXPECT_EQ(queue_->poll(1), BatchState::kUnderWay);
    EXPECT_EQ(poll_and_fail(kInvalidHandle), BatchState::kUnderWay);
    queue_->look_at_doubts(now_ns);
    EXPECT_FALSE(queue_->is_broken());
  }
}

TEST_F(CopyQueueOverFake, AThreadThatWasRefusedIsTakenLater) {
  CopyQueue other = CopyQueue::make(GpuContext::retain(driver_, 0).value(), 1).value();
  fake_->fail_call("cuCtxSetCurrent", 1, kInvalidContext);
  EXPECT_FALSE(other.take_thread());
  EXPECT_THAT(other.why(), testing::HasSubstr("cuCtxSetCurrent"));
  EXPECT_TRUE(other.take_thread());
  EXPECT_FALSE(other.is_broken());
}

TEST_F(CopyQueueOverFake, ABatchBringsBytesToTheHost) {
  start();
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  std::fill_n(from_, kBytes, std::byte{0});
  const Copy back = {from_, to_, kBytes};
  fake_->hold(nullptr);
  queue_->start(0, CopyTo::kHost, {&back, 1});
  EXPECT_EQ(queue_->poll(0), BatchState::kUnderWay);
  fake_->release(nullptr);
  EXPECT_EQ(end_of_batch(), BatchState::kCopied);
  EXPECT_TRUE(std::all_of(from_, from_ + kBytes, [](std::byte b) { return b == std::byte{0x3C}; }));
}

TEST_F(CopyQueueOverFake, ACopyToTheHostThatIsRefusedFailsItsBatch) {
  fake_->fail_call("cuMemcpyDtoHAsync_v2", 1, kInvalidValue);
  const Copy back = {from_, to_, kBytes};
  queue_->start(0, CopyTo::kHost, {&back, 1});
  EXPECT_EQ(end_of_batch(), BatchState::kFailed);
  EXPECT_FALSE(queue_->is_broken());
  EXPECT_THAT(queue_->why(), testing::HasSubstr("cuMemcpyDtoHAsync"));
}

TEST_F(CopyQueueOverFake, AStreamIsLookedAtByItsEvent) {
  const Stream stream = make_stream();
  fake_->hold(stream);
  ASSERT_EQ(driver_.fill(to_, 1, kBytes, stream), kSuccess);
  {
    const auto recorded = RecordedEvent::record(queue_->context(), stream).value();
    EXPECT_FALSE(queue_->has_passed(recorded->get()));
    fake_->fail_call("cuEventQuery", 1, 999);  // nobody knows
    EXPECT_FALSE(queue_->has_passed(recorded->get()));
    EXPECT_FALSE(queue_->is_broken());
    fake_->release(stream);
    EXPECT_EQ(driver_.wait_for_stream(stream), kSuccess);
    EXPECT_TRUE(queue_->has_passed(recorded->get()));
  }
  destroy(stream);
}

}  // namespace
}  // namespace farpage::cuda
