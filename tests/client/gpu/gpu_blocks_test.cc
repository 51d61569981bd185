// Fetches into blocks of a GPU's paged memory, over the fake driver.

#include "tests/client/gpu/gpu_blocks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <string>

#include "client/gpu/paged_region.h"
#include "client/gpu/stream_fence.h"
#include "transport/cuda/copies/page_scatter.h"

namespace farpage {
namespace {

using cuda::kInvalidValue;
using cuda::kSuccess;
using testing::HasSubstr;

struct FoundBlocks {
  size_t ready = 0;
  size_t corrupt = 0;
  size_t wrong = 0;      // ready, with other bytes
  size_t untouched = 0;  // of those that are not ready
};

class GpuBlocksFetch : public GpuBlocksClient {
 protected:
  FoundBlocks fetch_all(size_t pages = kStored) {
    wipe();
    const Ticket ticket = tier_->fetch(requests(pages), kTimeoutUs).value();
    ticket.wait();
    EXPECT_TRUE(ticket.wait_released(patience_ns()));
    FoundBlocks found;
    for (size_t i = 0; i < pages; ++i) {
      const PageVerdict& page = ticket.verdicts()[i];
      const bool is_ready = page.verdict == Verdict::kReady;
      found.ready += is_ready;
      found.corrupt += page.reason == Reason::kCorrupt;
      found.wrong += is_ready && !has_source(place(i), i);
      found.untouched += !is_ready && is_untouched(place(i));
    }
    return found;
  }
  // By copies alone.
  void expect_copies() {
    const uint64_t before = fake_->calls("cuLaunchKernel");
    const FoundBlocks found = fetch_all();
    EXPECT_EQ(found.ready, kStored);
    EXPECT_EQ(found.wrong, 0u);
    EXPECT_EQ(fake_->calls("cuLaunchKernel"), before);
  }
  // With a sentence about it.
  void expect_copies(const std::string& words) {
    expect_copies();
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(words));
  }
  OpenOptions roomy(uint64_t bounce_bytes) {
    bounce_bytes_ = bounce_bytes;
    return options();
  }
};

TEST_F(GpuBlocksFetch, PagesLieInTheirBlocksPieceByPiece) {
  open_with({});
  const FoundBlocks found = fetch_all(20);
  EXPECT_EQ(found.ready, 20u);
  EXPECT_EQ(found.wrong, 0u);
  EXPECT_TRUE(are_others_untouched(20));
  until([this] { return checked() == 20; });
  EXPECT_GT(fake_->calls("cuLaunchKernel"), 0u);
}

TEST_F(GpuBlocksFetch, PagesThatNoSharedMemoryHoldsAreReadTwice) {
  for (const cuda::FakeSettings& device :
       {cuda::FakeSettings{.compute_major = 8}, cuda::FakeSettings{.shared_bytes = kPageBytes}}) {
    if (memory_ != 0) end();
    open_with(device);
    const FoundBlocks found = fetch_all();
    EXPECT_EQ(found.ready, kStored);
    EXPECT_EQ(found.wrong, 0u);
    until([this] { return checked() == kStored; });
  }
}

TEST_F(GpuBlocksFetch, MissingPageLeavesItsBlockUntouched) {
  open_with({});
  const Ticket ticket = tier_->fetch(requests(4, kStored - 2), kTimeoutUs).value();
  ticket.wait();
  EXPECT_TRUE(has_source(place(0), kStored - 2));
  EXPECT_TRUE(has_source(place(1), kStored - 1));
  EXPECT_EQ(ticket.verdicts()[2].reason, Reason::kMiss);
  EXPECT_TRUE(are_others_untouched(2));
}

// Of the copies one brings the pieces' addresses, and is not spoiled.
TEST_F(GpuBlocksFetch, PageThatItsCopySpoilsIsCorruptAndItsBlockUntouched) {
  open_with({.spoil_every = 3});
  size_t corrupt = 0;
  for (int round = 0; round < 6; ++round) {
    const FoundBlocks found = fetch_all(1);
    EXPECT_EQ(found.ready + found.corrupt, 1u);
    EXPECT_EQ(found.wrong, 0u);
    EXPECT_EQ(found.untouched, found.corrupt);
    corrupt += found.corrupt;
  }
  EXPECT_EQ(corrupt, 2u);
  until([this] { return spoiled() == 2; });
}

TEST_F(GpuBlocksFetch, PiecesAddressesThatTheirCopySpoilsAreNotUsed) {
  testing::internal::CaptureStderr();
  start({.spoil_every = 1});
  tier_ = open(options());
  allocate_blocks({});
  blocks_ = tier_->register_gpu_blocks(described()).value();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the pieces' addresses were spoiled by their copy"));
}

TEST_F(GpuBlocksFetch, BlocksAreWrittenBeforeTheirPagesAreReady) {
  open_with({.delay_us = 500});
  for (int round = 0; round < 20; ++round) {
    const FoundBlocks found = fetch_all();
    EXPECT_EQ(found.ready, kStored);
    EXPECT_EQ(found.wrong, 0u);
  }
}

// Work that waits at a fence may have every processor that a kernel needs.
TEST_F(GpuBlocksFetch, CopiesTakePagesOfAFetchWithAFenceToTheirBlocks) {
  open_with({});
  const auto fence = tier_->make_fence(0, kStored).value();
  Notification notification;
  notification.fence = &fence->fence();
  const uint64_t before = fake_->calls("cuLaunchKernel");
  const Ticket ticket = tier_->fetch(requests(20), kTimeoutUs, {}, notification).value();
  EXPECT_TRUE(are_ready(ticket));
  for (size_t i = 0; i < 20; ++i) EXPECT_TRUE(has_source(place(i), i)) << i;
  EXPECT_TRUE(are_others_untouched(20));
  EXPECT_EQ(fake_->calls("cuLaunchKernel"), before);
}

TEST_F(GpuBlocksFetch, CopiesTakePagesToTheirBlocksWhereNothingIsToBeChecked) {
  OpenOptions unchecked = options();
  unchecked.gpu.check_copies = false;
  testing::internal::CaptureStderr();
  open_with({}, unchecked);
  expect_copies();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(checked(), 0u);
}

TEST_F(GpuBlocksFetch, CopiesTakePagesToTheirBlocksWithoutMemoryForKernels) {
  for (const char* call :
       {"cuMemAlloc_v2", "cuModuleLoadData", "cuModuleGetFunction", "cuMemHostGetDevicePointer_v2",
        "cuMemHostRegister_v2", "cuStreamCreate", "cuEventCreate", "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2", "cuLaunchKernel"}) {
    testing::internal::CaptureStderr();
    if (tier_ == nullptr) open_with({});
    blocks_ = {};
    const cuda::FakeCounts before = fake_->live();
    fake_->fail_call(call, 1, cuda::kOutOfMemory);
    blocks_ = tier_->register_gpu_blocks(described()).value();
    expect_copies("does not check them there (gpu.check_copies): ");
    blocks_ = {};
    EXPECT_EQ(fake_->live(), before) << call;
  }
}

// The pieces' addresses are under way to the device.
TEST_F(GpuBlocksFetch, AnErrorThatLeavesTheCopiesOpenChangesNothing) {
  open_with({.delay_us = 300});
  blocks_ = {};
  fake_->fail_call("cuStreamSynchronize", 1, 999);
  blocks_ = tier_->register_gpu_blocks(described()).value();
  EXPECT_EQ(fake_->live().operations, 0);
  EXPECT_EQ(fetch_all().ready, kStored);
  until([this] { return checked() == kStored; });
}

// One turn of the GPU's thread would last: so a portion has the fewer pages the more copies each
// is.
TEST_F(GpuBlocksFetch, PagesOfManyPiecesComeInShortPortions) {
  testing::internal::CaptureStderr();
  open_with({});
  blocks_ = {};
  free_on_gpu_now();
  shape_ = {.piece_bytes = 1, .layers = kPageBytes / 2, .gap_bytes = 0, .count = kStored};
  memory_ = allocate(kPageBytes * kStored);
  pieces_.clear();
  for (uint64_t i = 0; i < kPageBytes; ++i) pieces_.push_back(memory_ + i * kStored);
  cuda::GpuBlocks bytes = described();
  bytes.block_stride = 1;
  blocks_ = tier_->register_gpu_blocks(bytes).value();
  EXPECT_EQ(paged_region(blocks_.slice(0, kPageBytes))->portion_pages(), 1u);
  EXPECT_TRUE(are_ready(tier_->fetch(requests(3), kTimeoutUs).value()));
  const auto seen = on_gpu(memory_, kPageBytes * kStored);
  for (uint64_t number = 0; number < kStored; ++number) {
    size_t page = 0;
    while (page < 3 && place(page) != number) ++page;
    for (uint64_t i = 0; i < kPageBytes; ++i) {
      ASSERT_EQ(seen[i * kStored + number], page < 3 ? sources_->page(page)[i] : kUntouched);
    }
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("kernels move 16 bytes at a time"));
}

TEST_F(GpuBlocksFetch, PagesOfFewPiecesComeInLongPortions) {
  open_with({});
  EXPECT_EQ(paged_region(blocks_.slice(0, kPageBytes))->portion_pages(), 64u);
  EXPECT_EQ(paged_region(blocks_.slice(0, kPageBytes))->portion_bytes(), 256 * kKiB);
}

TEST_F(GpuBlocksFetch, CopiesTakePagesOfAnyLengthToTheirBlocks) {
  testing::internal::CaptureStderr();
  open_with({});
  blocks_ = {};
  free_on_gpu_now();
  allocate_blocks({.piece_bytes = 1001, .layers = 2, .gap_bytes = 3, .count = 10});
  blocks_ = tier_->register_gpu_blocks(described()).value();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("kernels move 16 bytes at a time"));
  std::vector<std::byte> page(shape_.block_bytes());
  for (size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(i * 31 + i / 256);
  {
    const Region source = tier_->register_memory(page).value();
    const PutRequest put = {key(500), source.slice(0, page.size())};
    const Ticket stored = tier_->put({&put, 1}, kTimeoutUs).value();
    stored.wait();
    ASSERT_EQ(stored.results()[0].code, Code::kOk);
  }
  EXPECT_TRUE(are_ready(tier_->fetch(requests(1, 500), kTimeoutUs).value()));
  EXPECT_EQ(block_on_gpu(place(0)), page);
  EXPECT_TRUE(are_others_untouched(1));
}

TEST_F(GpuBlocksFetch, CopiesTakePagesToTheirBlocksOnceTheDriverRefusesTheKernel) {
  testing::internal::CaptureStderr();
  open_with({});
  fake_->fail_call("cuLaunchKernel", 1, kInvalidValue);
  const FoundBlocks refused = fetch_all(4);
  EXPECT_LT(refused.ready, 4u);
  EXPECT_EQ(refused.wrong, 0u);
  EXPECT_EQ(refused.untouched, 4 - refused.ready);
  expect_copies("as the driver refuses the kernel: farpage_pages_through_shared: CUDA_ERROR");
}

// On its way to the kernel: no page is in its block then.
TEST_F(GpuBlocksFetch, RefusalOfACopyOrOfAWaitLeavesBlocksUntouched) {
  for (const auto& [call, result] :
       {std::pair("cuMemcpyHtoDAsync_v2", kInvalidValue),
        std::pair("cuStreamWaitEvent", kInvalidValue), std::pair("cuEventRecord", 802)}) {
    if (memory_ != 0) end();
    testing::internal::CaptureStderr();
    open_with({});
    fake_->fail_call(call, 1, result);
    const FoundBlocks refused = fetch_all(4);
    EXPECT_LT(refused.ready, 4u) << call;
    EXPECT_EQ(refused.wrong, 0u) << call;
    EXPECT_EQ(refused.untouched, 4 - refused.ready) << call;
    const FoundBlocks next = fetch_all();
    EXPECT_EQ(next.ready, kStored) << call;
    EXPECT_EQ(next.wrong, 0u) << call;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("pages were not copied to"));
  }
}

// More portions than there are slots.
TEST_F(GpuBlocksFetch, ManyFetchesAtOnceAllComeThrough) {
  open_with({.delay_us = 50}, roomy(16 * 256 * kKiB));
  for (int round = 0; round < 10; ++round) {
    wipe();
    std::vector<Ticket> tickets;
    for (size_t i = 0; i < kStored; ++i) {
      const std::array one = {PageRequest{key(i), 0, block(place(i))}};
      tickets.push_back(tier_->fetch(one, kTimeoutUs).value());
    }
    for (const Ticket& ticket : tickets) EXPECT_TRUE(are_ready(ticket));
    for (size_t i = 0; i < kStored; ++i) EXPECT_TRUE(has_source(place(i), i)) << i;
  }
}

// Of a device that stands still: those in slots are held, and others wait for one.
TEST_F(GpuBlocksFetch, DeadlineHoldsWhereAllSlotsAreTaken) {
  open_with({}, roomy(16 * 256 * kKiB));
  fake_->hold(nullptr);
  std::vector<Ticket> tickets;
  for (size_t i = 0; i < 2 * cuda::PageScatter::kSlots; ++i) {
    const std::array one = {PageRequest{key(i), 0, block(place(i))}};
    tickets.push_back(tier_->fetch(one, 200'000).value());
  }
  size_t held = 0;
  for (const Ticket& ticket : tickets) {
    EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kStalled));
    held += ticket.verdicts()[0].place == Place::kHeld;
  }
  EXPECT_EQ(held, cuda::PageScatter::kSlots);
  for (uint64_t number = 0; number < shape_.count; ++number) EXPECT_TRUE(is_untouched(number));
  fake_->release(nullptr);
  for (const Ticket& ticket : tickets) EXPECT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_EQ(fetch_all().ready, kStored);
  EXPECT_EQ(fetch_all().wrong, 0u);
}

TEST_F(GpuBlocksFetch, EndOfTheContextEndsThem) {
  open_with({});
  fake_->hold(nullptr);
  const Ticket under_way = tier_->fetch(requests(4), kTimeoutUs).value();
  until_copies_are_under_way();
  fake_->break_context(context_, cuda::kIllegalAddress);
  EXPECT_TRUE(are(under_way, Verdict::kRecompute, Reason::kUnreachable));
  EXPECT_TRUE(under_way.wait_released(patience_ns()));
  EXPECT_TRUE(are(tier_->fetch(requests(4), kTimeoutUs).value(), Verdict::kRecompute,
                  Reason::kUnreachable));
  EXPECT_EQ(tier_->register_gpu_blocks(described()).error().code, Code::kUnavailable);
  memory_ = 0;
  leave_everything();
}

TEST_F(GpuBlocksFetch, TwoRegionsHaveTheirOwnSlotsAndPieces) {
  open_with({.delay_us = 50});
  const BlockShape first = shape_;
  const uint64_t first_memory = memory_;
  const std::vector<uint64_t> first_pieces = pieces_;
  const Region first_blocks = std::move(blocks_);
  allocate_blocks({.piece_bytes = kPageBytes / 8, .layers = 4, .gap_bytes = 64, .count = 12});
  blocks_ = tier_->register_gpu_blocks(described()).value();
  for (int round = 0; round < 20; ++round) {
    wipe();
    const std::array into_first = {
        PageRequest{key(3), 0, first_blocks.slice(7 * first.block_bytes(), first.block_bytes())}};
    const Ticket one = tier_->fetch(into_first, kTimeoutUs).value();
    const Ticket other = tier_->fetch(requests(12), kTimeoutUs).value();
    EXPECT_TRUE(are_ready(one));
    EXPECT_TRUE(are_ready(other));
    for (size_t i = 0; i < 12; ++i) EXPECT_TRUE(has_source(place(i), i)) << i;
  }
  pieces_ = first_pieces;
  shape_ = first;
  EXPECT_TRUE(has_source(7, 3));
  EXPECT_EQ(driver_.free(first_memory), kSuccess);
}

// One block has no next one; and tensors that touch are still each its own.
TEST_F(GpuBlocksFetch, OneBlockHasAnyStride) {
  open_with({});
  cuda::GpuBlocks one = described();
  one.count = 1;
  for (const uint64_t stride : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 60}) {
    one.block_stride = stride;
    const auto taken = tier_->register_gpu_blocks(one);
    ASSERT_TRUE(taken) << taken.error().message;
    const std::array into = {PageRequest{key(2), 0, taken->slice(0, shape_.block_bytes())}};
    wipe();
    const uint64_t before = fake_->calls("cuLaunchKernel");
    EXPECT_TRUE(are_ready(tier_->fetch(into, kTimeoutUs).value()));
    EXPECT_TRUE(has_source(0, 2));
    EXPECT_GT(fake_->calls("cuLaunchKernel"), before);
  }
}

}  // namespace
}  // namespace farpage
