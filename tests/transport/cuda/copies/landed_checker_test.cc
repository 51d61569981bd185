// Pages that a NIC has written to a device, checked there.

#include "transport/cuda/copies/landed_checker.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "integrity/crc32c.h"
#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using cuda::NicWrite;

class LandedCheckerTest : public FakeDriverTest {
 protected:
  using Outcome = CheckEnd::Outcome;
  static constexpr size_t kPages = 700;  // more than there is room for
  static constexpr uint64_t kStride = 64;

  ~LandedCheckerTest() override { end(); }

  void begin(const cuda::FakeSettings& settings) {
    start(settings);
    gpu_ = cuda::GpuContext::retain(driver_, 0).value();
    memory_ = allocate(kPages * kStride);
    checker_ = cuda::LandedChecker::make(gpu_).value();
  }
  void end() {
    checker_.reset();
    if (memory_ != 0) {
      EXPECT_EQ(driver_.free(memory_), kSuccess);
    }
    memory_ = 0;
    gpu_.reset();
  }
  // A page as a NIC lands it: of its own length and bytes.
  PayloadCheck land(uint32_t number, bool is_good = true) const {
    std::vector<std::byte> page(1 + number % kStride, static_cast<std::byte>(number));
    const uint64_t address = memory_ + number * kStride;
    const uint32_t crc = crc32c(0, page.data(), page.size());
    if (!is_good) page.back() ^= std::byte{32};
    EXPECT_EQ(fake_->nic_write(address, page.data(), page.size(), NicWrite::kHeldBack), kSuccess);
    return {reinterpret_cast<const std::byte*>(address), page.size(), crc, number};
  }
  // The ends of all of them, by tag.
  std::vector<Outcome> check(std::span<const PayloadCheck> checks) {
    std::vector<Outcome> outcomes(kPages, Outcome::kFailed);
    std::vector<int> counts(kPages);
    size_t begun = 0;
    std::array<CheckEnd, 10> ends;
    for (size_t ended = 0; ended < checks.size();) {
      begun += checker_->begin(checks.subspan(begun));
      const size_t count = checker_->poll(ends);
      for (const CheckEnd& end : std::span(ends).first(count)) {
        outcomes[end.tag] = end.outcome;
        EXPECT_EQ(++counts[end.tag], 1);
      }
      ended += count;
      if (count == 0) std::this_thread::yield();
    }
    return outcomes;
  }

  std::shared_ptr<const cuda::GpuContext> gpu_;
  uint64_t memory_ = 0;
  std::unique_ptr<Checker> checker_;
};

TEST_F(LandedCheckerTest, FindsEachPageThatIsWrong) {
  for (const int flush_options : {1, 2}) {
    if (memory_ != 0) {
      end();
      EXPECT_EQ(driver_.release_context(0), kSuccess);
    }
    begin({.writes_ordering = 0, .flush_options = flush_options, .delay_us = 50});
    std::vector<PayloadCheck> checks;
    for (uint32_t i = 0; i < kPages; ++i) checks.push_back(land(i, i % 3 != 0));
    const auto outcomes = check(checks);
    for (uint32_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(outcomes[i], i % 3 == 0 ? Outcome::kBad : Outcome::kGood) << i;
    }
  }
}

TEST_F(LandedCheckerTest, KnowsNothingOfPagesWhoseCheckIsRefused) {
  for (const char* call : {"cuFlushGPUDirectRDMAWrites", "cuLaunchKernel", "cuStreamWaitEvent"}) {
    if (memory_ != 0) {
      end();
      EXPECT_EQ(driver_.release_context(0), kSuccess);
    }
    begin({.writes_ordering = 0, .flush_options = 1});
    const PayloadCheck page = land(5);
    fake_->fail_call(call, 1, cuda::kInvalidValue);
    EXPECT_EQ(check({&page, 1})[5], Outcome::kFailed) << call;
    EXPECT_EQ(check({&page, 1})[5], Outcome::kGood) << call;
  }
}

TEST_F(LandedCheckerTest, EndsItsChecksWithTheContext) {
  begin({});
  fake_->hold(nullptr);
  const PayloadCheck page = land(1);
  ASSERT_EQ(checker_->begin({&page, 1}), 1u);
  CheckEnd end;
  EXPECT_EQ(checker_->poll({&end, 1}), 0u);
  fake_->break_context(context_, cuda::kIllegalAddress);
  while (checker_->poll({&end, 1}) == 0) std::this_thread::yield();
  EXPECT_EQ(end.outcome, Outcome::kFailed);
  EXPECT_EQ(check({&page, 1})[1], Outcome::kFailed);
  memory_ = 0;
  leave_everything();
}

// Of 201, 214, 400 and 999 CUDA does not say whether the context has ended.
TEST_F(LandedCheckerTest, EndsItsChecksThoughTheDriverLeavesTheirEndOpen) {
  begin({});
  fake_->hold(nullptr);
  const PayloadCheck page = land(1);
  ASSERT_EQ(checker_->begin({&page, 1}), 1u);
  CheckEnd end;
  const uint64_t begin_ns = boottime_clock().now_ns();
  do {
    fake_->fail_call("cuEventQuery", 1, 999);
  } while (checker_->poll({&end, 1}) == 0);
  EXPECT_EQ(end.outcome, Outcome::kFailed);
  EXPECT_GE(boottime_clock().now_ns() - begin_ns, cuda::kDoubtNs);
  fake_->fail_call("cuEventQuery", 0, kSuccess);
  fake_->release(nullptr);
  while (fake_->live().operations > 0) std::this_thread::yield();
}

TEST_F(LandedCheckerTest, WaitsForItsChecksAtItsEnd) {
  begin({});
  fake_->hold(nullptr);
  const PayloadCheck page = land(1);
  ASSERT_EQ(checker_->begin({&page, 1}), 1u);
  std::thread releases([this] { fake_->release(nullptr); });
  checker_.reset();
  EXPECT_EQ(fake_->live().operations, 0);
  releases.join();
}

}  // namespace
}  // namespace farpage
