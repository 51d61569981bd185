// What the device finds where copies have brought pages, over the fake.

#include "transport/cuda/copies/copy_checks.h"

#include <isa-l/crc.h>

#include <array>
#include <optional>
#include <thread>
#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"
#include "transport/cuda/copies/copy_queue.h"

namespace farpage::cuda {
namespace {

constexpr uint32_t kBatches = 2;
constexpr uint32_t kMostPages = 8;
constexpr size_t kBytes = 64 * 1024;

class CopyChecksOverFake : public FakeDriverTest {
 protected:
  CopyChecksOverFake() { open({}); }
  ~CopyChecksOverFake() override { close(); }

  void open(const FakeSettings& settings) {
    start(settings);
    from_ = pin(kBytes);
    for (size_t i = 0; i < kBytes; ++i) from_[i] = static_cast<std::byte>(i * 7 + i / 251);
    to_ = allocate(kBytes);
    queue_.emplace(CopyQueue::make(GpuContext::retain(driver_, 0).value(), kBatches).value());
    EXPECT_TRUE(queue_->take_thread());
    EXPECT_TRUE(queue_->add_checks(PageKernels::load(driver_, 0).value(), kMostPages));
  }
  void close() {
    fake_->release(nullptr);
    while (fake_->live().operations > 0) std::this_thread::yield();
    queue_.reset();
    EXPECT_EQ(driver_.free_host(from_), kSuccess);
    EXPECT_EQ(driver_.free(to_), kSuccess);
  }

  struct Page {
    uint32_t at = 0;
    uint32_t bytes = 0;
  };
  void copy(uint32_t batch, const std::vector<Page>& pages) {
    std::vector<Copy> copies;
    std::vector<CopiedPage> copied;
    for (const Page& page : pages) {
      copies.push_back({from_ + page.at, to_ + page.at, page.bytes});
      copied.push_back({to_ + page.at, page.bytes});
    }
    queue_->start(batch, CopyTo::kDevice, copies, copied);
  }
  BatchState end_of(uint32_t batch) {
    BatchState state = queue_->poll(batch);
    for (; state == BatchState::kUnderWay; state = queue_->poll(batch)) std::this_thread::yield();
    return state;
  }
  // isa-l's own.
  uint32_t crc_of(const Page& page) const {
    auto* const bytes = reinterpret_cast<unsigned char*>(from_ + page.at);
    return ~crc32_iscsi(bytes, static_cast<int>(page.bytes), 0xFFFFFFFFu);
  }
  bool is_there(const Page& page) const {
    std::vector<std::byte> seen(page.bytes);
    EXPECT_EQ(fake_->peek(to_ + page.at, seen.data(), seen.size()), kSuccess);
    return std::equal(seen.begin(), seen.end(), from_ + page.at);
  }
  bool is_right(uint32_t batch, uint32_t number, const Page& page) {
    return queue_->is_checked(batch) && queue_->checks()->crc(batch, number) == crc_of(page);
  }

  std::byte* from_ = nullptr;
  uint64_t to_ = 0;
  std::optional<CopyQueue> queue_;
};

TEST_F(CopyChecksOverFake, PagesOfEveryLengthAreRight) {
  const std::vector<Page> pages = {{0, 1},       {4, 3},        {8, 255},       {512, 4096},
                                   {8192, 4097}, {16384, 8192}, {32768, 20000}, {57344, 64}};
  copy(0, pages);
  EXPECT_EQ(end_of(0), BatchState::kCopied);
  for (uint32_t i = 0; i < pages.size(); ++i) EXPECT_TRUE(is_right(0, i, pages[i])) << i;
}

TEST_F(CopyChecksOverFake, CopyThatBringsAWrongByteIsFound) {
  close();
  open({.spoil_every = 2});
  const std::vector<Page> pages = {{0, 4096}, {8192, 4096}, {16384, 4096}, {24576, 4096}};
  copy(0, pages);  // four copies, as no two lie together
  EXPECT_EQ(end_of(0), BatchState::kCopied);
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(is_right(0, i, pages[i]), is_there(pages[i]));
    wrong += is_there(pages[i]) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 2u);
}

// Each has items and CRCs of its own.
TEST_F(CopyChecksOverFake, BatchesDoNotTouchEachOther) {
  const Page first = {0, 4096};
  const Page second = {4096, 12345};
  for (int round = 0; round < 50; ++round) {
    copy(0, {first});
    copy(1, {second});
    EXPECT_EQ(end_of(1), BatchState::kCopied);
    EXPECT_EQ(end_of(0), BatchState::kCopied);
    EXPECT_TRUE(is_right(0, 0, first));
    EXPECT_TRUE(is_right(1, 0, second));
  }
}

TEST_F(CopyChecksOverFake, BatchIsOverOnlyOnceItsCheckIs) {
  fake_->hold(queue_->checks()->stream());
  copy(0, {{0, 4096}});
  while (fake_->live().operations > 3) std::this_thread::yield();  // a wait, a kernel, an event
  EXPECT_EQ(queue_->poll(0), BatchState::kUnderWay);
  fake_->release(queue_->checks()->stream());
  EXPECT_EQ(end_of(0), BatchState::kCopied);
  EXPECT_TRUE(is_right(0, 0, {0, 4096}));
}

TEST_F(CopyChecksOverFake, CheckWaitsForItsCopies) {
  fake_->hold(nullptr);
  copy(0, {{0, 4096}});
  fake_->release(queue_->checks()->stream());
  for (int look = 0; look < 100; ++look) {  // a kernel that does not wait would end meanwhile
    EXPECT_EQ(queue_->poll(0), BatchState::kUnderWay);
    std::this_thread::yield();
  }
  fake_->release(nullptr);
  EXPECT_EQ(end_of(0), BatchState::kCopied);
  EXPECT_TRUE(is_right(0, 0, {0, 4096}));
}

// Its copies have ended by then all the same.
TEST_F(CopyChecksOverFake, BatchWhoseCheckIsRefusedIsUncheckedAndTheNextOneIsChecked) {
  for (const char* const call : {"cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel"}) {
    fake_->fail_call(call, 1, kInvalidValue);
    copy(0, {{0, 4096}});
    EXPECT_EQ(end_of(0), BatchState::kCopied) << call;
    EXPECT_FALSE(queue_->is_checked(0)) << call;
    EXPECT_NE(queue_->why(), "");
    EXPECT_TRUE(is_there({0, 4096})) << call;
    copy(0, {{0, 4096}});
    EXPECT_EQ(end_of(0), BatchState::kCopied) << call;
    EXPECT_TRUE(is_right(0, 0, {0, 4096})) << call;
  }
}

// The kernel's stream ends nothing that was not begun there.
TEST_F(CopyChecksOverFake, CopiesThatAreRefusedAreNotChecked) {
  fake_->fail_call("cuMemcpyHtoDAsync_v2", 1, kInvalidValue);
  const uint64_t before = fake_->calls("cuLaunchKernel");
  copy(0, {{0, 4096}});
  EXPECT_EQ(end_of(0), BatchState::kFailed);
  EXPECT_FALSE(queue_->is_checked(0));
  EXPECT_EQ(fake_->calls("cuLaunchKernel"), before);
}

TEST_F(CopyChecksOverFake, WhatCannotBeMadeIsASentenceAndLeavesNothing) {
  const FakeCounts before = fake_->live();
  for (const char* const call : {"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2",
                                 "cuStreamCreate", "cuEventCreate"}) {
    const PageKernels kernels = PageKernels::load(driver_, 0).value();
    fake_->fail_call(call, 1, kInvalidValue);
    const auto made = CopyChecks::make(GpuContext::retain(driver_, 0).value(), kernels, 1, 1);
    ASSERT_FALSE(made) << call;
    EXPECT_FALSE(made.error().message.empty());
    EXPECT_EQ(fake_->live(), before) << call;
  }
}

TEST(CopyChecks, KernelsReadWholeWords) {
  EXPECT_TRUE(CopyChecks::can_check(4096));
  EXPECT_TRUE(CopyChecks::can_check(4100));
  for (const uint64_t at : {4097, 4098, 4099}) EXPECT_FALSE(CopyChecks::can_check(at));
}

}  // namespace
}  // namespace farpage::cuda
