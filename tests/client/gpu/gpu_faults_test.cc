// Fetches into memory of a GPU whose driver fails, and puts from there.

#include <gmock/gmock.h>

#include <array>

#include "tests/client/gpu/gpu_client.h"

namespace farpage {
namespace {

using cuda::kIllegalAddress;
using cuda::kInvalidValue;
using cuda::kSuccess;

constexpr int kSystemNotReady = 802;  // it says nothing of the context

class GpuFaults : public GpuClient {
 protected:
  GpuFaults() {
    tier_ = open(options());
    sources_.emplace(*tier_, kPages, uint8_t{1});
    put_all(*tier_, *sources_);
    region_ = registered(kPages);
  }
  ~GpuFaults() override { sources_.reset(); }

  // The second one's context.
  cuda::Context open_over_two_gpus() {
    sources_.reset();
    tier_.reset();
    forget_allocations();
    region_ = {};
    start({.devices = 2});
    tier_ = open(options());
    sources_.emplace(*tier_, kPages, uint8_t{1});
    put_all(*tier_, *sources_);
    cuda::Context second = nullptr;
    EXPECT_EQ(driver_.retain_context(&second, 1), kSuccess);
    return second;
  }
  Ticket fetch() const { return tier_->fetch(fetches_to(region_), kTimeoutUs).value(); }
  // To keys of their own.
  Ticket put() const { return tier_->put(puts_from(region_, kPutKey), kTimeoutUs).value(); }
  static bool are_all(const Ticket& ticket, Code code) {
    ticket.wait();
    return std::ranges::all_of(ticket.results(),
                               [=](const PutResult& result) { return result.code == code; });
  }
  // What lies on the GPU has been put.
  bool is_stored() {
    const Pages landed(*tier_, kPages);
    if (!are_ready(tier_->fetch(fetches(landed, kPutKey), kTimeoutUs).value())) return false;
    for (size_t i = 0; i < kPages; ++i) {
      if (!std::ranges::equal(landed.page(i), on_gpu(address_of(region_, i)))) return false;
    }
    return true;
  }
  bool is_whole() const {
    for (size_t i = 0; i < kPages; ++i) {
      if (!has_page(region_, i, *sources_, i)) return false;
    }
    return true;
  }

  static constexpr size_t kPages = 4;
  static constexpr size_t kPutKey = 100;
  std::optional<Pages> sources_;
  Region region_;
};

TEST_F(GpuFaults, OfACopyMakeItsPagesUnreachableAndNoOthers) {
  fake_->fail_call("cuMemcpyHtoDAsync_v2", 1, kInvalidValue);
  const Ticket refused = fetch();
  refused.wait();
  int unreachable = 0;
  for (const PageVerdict& page : refused.verdicts()) {
    unreachable += page.reason == Reason::kUnreachable;
    EXPECT_EQ(page.verdict == Verdict::kReady, page.reason == Reason::kNone);
  }
  EXPECT_GT(unreachable, 0);
  EXPECT_TRUE(refused.wait_released(patience_ns()));
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
}

TEST_F(GpuFaults, OfTakingTheContextCostNoGpu) {
  sources_.reset();
  tier_.reset();
  tier_ = open(options());
  sources_.emplace(*tier_, kPages, uint8_t{1});
  put_all(*tier_, *sources_);
  fake_->fail_call("cuCtxSetCurrent", 1, kSystemNotReady);
  region_ = registered(kPages);
  const uint64_t until_ns = patience_ns();
  while (!are_ready(fetch())) ASSERT_LT(tier_->clock().now_ns(), until_ns);
  EXPECT_TRUE(is_whole());
}

// The copies are under way, and something has to tell of their end.
TEST_F(GpuFaults, OfAnEventOrOfAQuestionForItChangeNothing) {
  for (const char* call : {"cuEventRecord", "cuEventQuery"}) {
    fake_->fail_call(call, 1, kSystemNotReady);
    EXPECT_TRUE(are_ready(fetch())) << call;
    EXPECT_TRUE(is_whole()) << call;
  }
}

TEST_F(GpuFaults, ThatEndTheContextEndFetchesIntoTheGpuAndNoOthers) {
  fake_->hold(nullptr);
  const Ticket under_way = fetch();
  until_copies_are_under_way();
  fake_->break_context(context_, kIllegalAddress);
  EXPECT_TRUE(are(under_way, Verdict::kRecompute, Reason::kUnreachable));
  EXPECT_TRUE(under_way.wait_released(patience_ns()));
  EXPECT_TRUE(are(fetch(), Verdict::kRecompute, Reason::kUnreachable));
  const Pages landed(*tier_, kPages, 100);
  EXPECT_TRUE(are_ready(tier_->fetch(fetches(landed), kTimeoutUs).value()));
  EXPECT_TRUE(std::ranges::equal(landed.page(3), sources_->page(3)));
  const auto more = tier_->register_gpu_memory(address_of(region_), kPageBytes);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, testing::HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  leave_everything();
  forget_allocations();
}

TEST_F(GpuFaults, OfOneGpuLeaveTheOtherAlone) {
  cuda::Context const second = open_over_two_gpus();
  region_ = registered(kPages);
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  const Region other = registered(kPages);
  EXPECT_EQ(other.place().device, 1);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  fake_->break_context(second, kIllegalAddress);
  EXPECT_TRUE(are(tier_->fetch(fetches_to(other), kTimeoutUs).value(), Verdict::kRecompute,
                  Reason::kUnreachable));
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  leave_everything();
  forget_allocations();
}

TEST_F(GpuFaults, OfTheFirstGpuLeaveRegistrationsOfTheSecondAlone) {
  cuda::Context const second = open_over_two_gpus();
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  const uint64_t address = pages_on_gpu(kPages);
  fake_->break_context(context_, kIllegalAddress);
  auto region = tier_->register_gpu_memory(address, kPages * kPageBytes);
  ASSERT_TRUE(region) << region.error().message;
  region_ = std::move(*region);
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  leave_everything();
  forget_allocations();
}

TEST_F(GpuFaults, ThatLoseAGpuRefuseItsFurtherMemory) {
  constexpr int kAssert = 710;  // the fake's context goes on
  fake_->fail_call("cuMemcpyHtoDAsync_v2", 1, kAssert);
  const Ticket ended = fetch();
  ended.wait();
  EXPECT_TRUE(ended.wait_released(patience_ns()));
  EXPECT_TRUE(are(fetch(), Verdict::kRecompute, Reason::kUnreachable));
  const auto more = tier_->register_gpu_memory(address_of(region_), kPageBytes);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, testing::HasSubstr("open a new client"));
  tier_.reset();
  tier_ = open(options());
  EXPECT_TRUE(tier_->register_gpu_memory(address_of(region_), kPageBytes));
}

// To free it under a registration is the caller's mistake: its pages are lost, and nobody else's.
TEST_F(GpuFaults, OfMemoryThatIsFreedMakeItsPagesUnreachable) {
  const Region freed = registered(kPages);
  free_on_gpu(address_of(freed));
  EXPECT_TRUE(are(tier_->fetch(fetches_to(freed), kTimeoutUs).value(), Verdict::kRecompute,
                  Reason::kUnreachable));
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  expect_broken(kInvalidValue, kInvalidValue, "out of range");
}

// As where an engine gives its cache's memory back and takes other memory: at the same addresses.
TEST_F(GpuFaults, OfMemoryThatIsUnmappedLastUntilOtherMemoryIsMappedThere) {
  const uint64_t base = reserve(kGranule);
  map(base);
  const Region mapped = tier_->register_gpu_memory(base, kPages * kPageBytes).value();
  const auto fetch_there = [&] { return tier_->fetch(fetches_to(mapped), kTimeoutUs).value(); };
  const auto put_there = [&] { return tier_->put(puts_from(mapped, kPutKey), kTimeoutUs).value(); };
  ASSERT_TRUE(are_ready(fetch_there()));
  ASSERT_EQ(later_.unmap_memory(base, kGranule), kSuccess);
  EXPECT_TRUE(are(fetch_there(), Verdict::kRecompute, Reason::kUnreachable));
  expect_broken(kInvalidValue, kInvalidValue, "out of range");
  EXPECT_TRUE(are_all(put_there(), Code::kUnavailable));
  expect_broken(kInvalidValue, kInvalidValue, "out of range");
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  map(base);
  EXPECT_TRUE(are_ready(fetch_there()));
  for (size_t i = 0; i < kPages; ++i) EXPECT_TRUE(has_page(mapped, i, *sources_, i));
  EXPECT_TRUE(are_all(put_there(), Code::kOk));
  EXPECT_EQ(later_.unmap_memory(base, kGranule), kSuccess);
  EXPECT_EQ(later_.free_addresses(base, kGranule), kSuccess);
}

TEST_F(GpuFaults, OfACopyFromTheGpuFailThePutAndNoOther) {
  ASSERT_TRUE(are_ready(fetch()));
  fake_->fail_call("cuMemcpyDtoHAsync_v2", 1, kInvalidValue);
  const Ticket refused = put();
  EXPECT_TRUE(are_all(refused, Code::kUnavailable));
  EXPECT_THAT(refused.why(),
              testing::StartsWith("the page was not copied from cuda:0: cuMemcpyDtoHAsync: "
                                  "CUDA_ERROR_INVALID_VALUE"));
  EXPECT_TRUE(refused.wait_released(patience_ns()));
  EXPECT_TRUE(are_all(put(), Code::kOk));
  EXPECT_TRUE(is_stored());
}

// Some copies of the batch may be under way (here half), and something has to tell of their end.
TEST_F(GpuFaults, OfALaterCopyLendTheSourceUntilTheOthersHavePassed) {
  auto scattered = puts_from(region_, kPutKey);
  std::ranges::reverse(scattered);
  fake_->hold(nullptr);
  fake_->fail_call("cuMemcpyBatchAsync_v2", 1, kInvalidValue);
  const Ticket refused = tier_->put(scattered, kTimeoutUs).value();
  until([this] { return fake_->live().operations == kPages / 2 + 1; });
  EXPECT_FALSE(refused.released());
  fake_->release(nullptr);
  EXPECT_TRUE(are_all(refused, Code::kUnavailable));
  EXPECT_TRUE(refused.wait_released(patience_ns()));
}

// Of 201, 214, 400 and 999 CUDA does not say whether they end the context.
TEST_F(GpuFaults, OfAnEventOfAPutChangeNothing) {
  ASSERT_TRUE(are_ready(fetch()));
  for (const char* call : {"cuEventRecord", "cuEventQuery"}) {
    for (const int result : {kSystemNotReady, 201, 214, 400, 999}) {
      fake_->fail_call(call, 1, result);
      EXPECT_TRUE(are_all(put(), Code::kOk)) << call << " " << result;
      EXPECT_TRUE(is_stored()) << call << " " << result;
    }
  }
}

TEST_F(GpuFaults, ThatEndTheContextEndPutsFromTheGpuAndNoOthers) {
  fake_->hold(nullptr);
  const Ticket under_way = put();
  until_copies_are_under_way();
  fake_->break_context(context_, kIllegalAddress);
  EXPECT_TRUE(are_all(under_way, Code::kUnavailable));
  EXPECT_THAT(under_way.why(), testing::HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_TRUE(under_way.wait_released(patience_ns()));
  EXPECT_TRUE(are_all(put(), Code::kUnavailable));
  EXPECT_FALSE(tier_->put_behind(nullptr, puts_from(region_), kTimeoutUs));
  put_all(*tier_, *sources_);
  EXPECT_TRUE(tier_->flush(kTimeoutUs));
  leave_everything();
  forget_allocations();
}

TEST_F(GpuFaults, ThatEndTheContextEndPutsThatWaitForAStream) {
  const cuda::Stream stream = make_stream();
  fake_->hold(stream);
  ASSERT_EQ(driver_.fill(address_of(region_), 1, kPageBytes, stream), kSuccess);
  const Ticket waiting = tier_->put_behind(stream, puts_from(region_), kTimeoutUs).value();
  fake_->break_context(context_, kIllegalAddress);
  EXPECT_TRUE(are_all(waiting, Code::kUnavailable));
  EXPECT_TRUE(waiting.wait_released(patience_ns()));
  leave_everything();
  forget_allocations();
}

TEST_F(GpuFaults, OfOneGpuLeavePutsFromTheOtherAlone) {
  cuda::Context const second = open_over_two_gpus();
  region_ = registered(kPages);
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  const Region other = registered(kPages);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  fake_->break_context(second, kIllegalAddress);
  EXPECT_TRUE(are_all(tier_->put(puts_from(other), kTimeoutUs).value(), Code::kUnavailable));
  EXPECT_TRUE(are_all(put(), Code::kOk));
  EXPECT_TRUE(is_stored());
  const std::array mixed = {PutRequest{key(0), region_.slice(0, kPageBytes)},
                            PutRequest{key(1), other.slice(0, kPageBytes)}};
  EXPECT_THAT(tier_->put(mixed, kTimeoutUs).error().message,
              testing::HasSubstr("in memory of cuda:0 and in memory of cuda:1"));
  leave_everything();
  forget_allocations();
}

TEST_F(GpuFaults, OfAStreamOfAnotherGpuIsRefused) {
  cuda::Context const second = open_over_two_gpus();
  region_ = registered(kPages);
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  const cuda::Stream stream = make_stream();
  const auto refused = tier_->put_behind(stream, puts_from(region_, kPutKey), kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  expect_broken(cuda::kInvalidHandle, cuda::kInvalidHandle, "the stream is of another context");
  destroy(stream);
  ASSERT_EQ(driver_.release_context(1), kSuccess);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  EXPECT_TRUE(are_all(put(), Code::kOk));
}

TEST_F(GpuFaults, OfMemoryThatIsFreedFailItsPuts) {
  const Region freed = registered(kPages);
  free_on_gpu(address_of(freed));
  EXPECT_TRUE(are_all(tier_->put(puts_from(freed), kTimeoutUs).value(), Code::kUnavailable));
  EXPECT_TRUE(are_all(put(), Code::kOk));
  EXPECT_TRUE(is_stored());
  expect_broken(kInvalidValue, kInvalidValue, "out of range");
}

}  // namespace
}  // namespace farpage
