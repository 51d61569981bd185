// Puts from blocks of a GPU's paged memory, over the fake driver.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <string>

#include "client/gpu/stream_fence.h"
#include "tests/client/gpu/gpu_blocks.h"
#include "transport/cuda/copies/page_gather.h"

namespace farpage {
namespace {

using cuda::kInvalidValue;
using cuda::kSuccess;
using testing::HasSubstr;
using testing::Not;

class GpuBlocksPut : public GpuBlocksClient {
 protected:
  void write_block(uint64_t number, size_t page) {
    const auto bytes = sources_->page(page);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      write_at(pieces_[i] + number * shape_.stride(),
               bytes.subspan(i * shape_.piece_bytes, shape_.piece_bytes));
    }
  }
  // So many pages of the sources, each in its place.
  void write_blocks(size_t count) {
    for (size_t i = 0; i < count; ++i) write_block(place(i), i);
  }
  bool is_stored(size_t first_key, size_t count) {
    const Pages landed(*tier_, count, 200);
    if (!are_ready(tier_->fetch(fetches(landed, first_key), kTimeoutUs).value())) return false;
    for (size_t i = 0; i < count; ++i) {
      if (!std::ranges::equal(landed.page(i), sources_->page(i))) return false;
    }
    return true;
  }
  bool is_missing(size_t key) {
    const Pages landed(*tier_, 1, 200);
    return are(tier_->fetch(fetches(landed, key), kTimeoutUs).value(), Verdict::kRecompute,
               Reason::kMiss);
  }
  std::vector<PutRequest> puts(size_t count, size_t first_key) const {
    std::vector<PutRequest> made;
    for (size_t i = 0; i < count; ++i) made.push_back({key(first_key + i), block(place(i))});
    return made;
  }
  // The put's result, of all pages alike, after its release.
  Code put_all(size_t count, size_t first_key, uint64_t timeout_us = kTimeoutUs) {
    ticket_ = tier_->put(puts(count, first_key), timeout_us).value();
    ticket_.wait();
    EXPECT_TRUE(ticket_.wait_released(patience_ns()));
    const Code first = ticket_.results()[0].code;
    for (const PutResult& page : ticket_.results()) EXPECT_EQ(page.code, first);
    return first;
  }
  uint64_t gathers() const { return fake_->calls("farpage_gather_pages"); }
  uint64_t copies() const {
    return fake_->calls("cuMemcpyDtoHAsync_v2") + fake_->calls("cuMemcpyBatchAsync_v2");
  }
  // Puts all pages there are, by copies alone.
  void expect_copies() {
    write_blocks(kStored);
    const uint64_t before = gathers();
    EXPECT_EQ(put_all(kStored, next_key_), Code::kOk) << ticket_.why();
    EXPECT_TRUE(is_stored(next_key_, kStored));
    EXPECT_EQ(gathers(), before);
    next_key_ += kStored;
  }
  // With a sentence about it.
  void expect_copies(const std::string& words) {
    expect_copies();
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(words));
  }

  static constexpr size_t kPutKey = 300;
  size_t next_key_ = kPutKey;
  Ticket ticket_;
};

TEST_F(GpuBlocksPut, AKernelBringsPagesFromTheirPieces) {
  open_with({});
  write_blocks(20);
  const uint64_t launched = gathers();
  const uint64_t copied = copies();
  EXPECT_EQ(put_all(20, kPutKey), Code::kOk) << ticket_.why();
  EXPECT_TRUE(is_stored(kPutKey, 20));
  const uint64_t portions = gathers() - launched;
  EXPECT_GT(portions, 0u);
  EXPECT_EQ(copies(), copied + portions);  // one each: the pages lie side by side by then
}

TEST_F(GpuBlocksPut, PagesAreWhatAStreamHasMadeThem) {
  open_with({});
  const cuda::Stream stream = make_stream();
  write_block(place(0), 3);
  fake_->hold(stream);
  for (const uint64_t piece : pieces_) {  // page 0 is filled with 1
    ASSERT_EQ(driver_.fill(piece + place(0) * shape_.stride(), 1, shape_.piece_bytes, stream),
              kSuccess);
  }
  const uint64_t before = gathers();
  const Ticket ticket = tier_->put_behind(stream, puts(1, kPutKey), kTimeoutUs).value();
  const uint64_t looks = fake_->calls("cuEventQuery");
  until([&] { return fake_->calls("cuEventQuery") > looks + 1; });
  EXPECT_FALSE(ticket.done());
  EXPECT_EQ(gathers(), before);
  fake_->release(stream);
  ticket.wait();
  EXPECT_TRUE(is_stored(kPutKey, 1)) << ticket.why();
  destroy(stream);
}

TEST_F(GpuBlocksPut, APageOfNoBytesIsRefusedBesideOthers) {
  open_with({});
  write_blocks(2);
  auto requests = puts(2, kPutKey);
  requests.insert(requests.begin() + 1, PutRequest{key(kPutKey + 9), {}});
  const Ticket ticket = tier_->put(requests, kTimeoutUs).value();
  ticket.wait();
  EXPECT_EQ(ticket.results()[0].code, Code::kOk) << ticket.why();
  EXPECT_EQ(ticket.results()[1].code, Code::kInvalid);
  EXPECT_EQ(ticket.results()[2].code, Code::kOk);
  EXPECT_TRUE(is_stored(kPutKey, 2));
}

TEST_F(GpuBlocksPut, AKernelBringsPagesWhereNothingIsToBeChecked) {
  OpenOptions unchecked = options();
  unchecked.gpu.check_copies = false;
  testing::internal::CaptureStderr();
  open_with({}, unchecked);
  write_blocks(4);
  const uint64_t before = gathers();
  EXPECT_EQ(put_all(4, kPutKey), Code::kOk) << ticket_.why();
  EXPECT_TRUE(is_stored(kPutKey, 4));
  EXPECT_GT(gathers(), before);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Work that waits at a fence may have every processor that a kernel needs.
TEST_F(GpuBlocksPut, CopiesBringPagesWhileAFetchWithAFenceIsUnderWay) {
  open_with({});
  const auto fence = tier_->make_fence(0, 1).value();
  Notification notification;
  notification.fence = &fence->fence();
  fake_->hold(nullptr);
  const Ticket fetch = tier_->fetch(requests(1), kTimeoutUs, {}, notification).value();
  until_copies_are_under_way();
  write_block(place(1), 0);
  const std::array put = {PutRequest{key(kPutKey), block(place(1))}};
  const uint64_t before = gathers();
  const uint64_t copied = copies();
  const Ticket ticket = tier_->put(put, kTimeoutUs).value();
  until([&] { return copies() > copied; });
  fake_->release(nullptr);
  ticket.wait();
  EXPECT_TRUE(is_stored(kPutKey, 1)) << ticket.why();
  EXPECT_EQ(gathers(), before);
  EXPECT_TRUE(are_ready(fetch));
}

TEST_F(GpuBlocksPut, CopiesBringPagesOfBlocksThatNoKernelCanTake) {
  open_with({});
  blocks_ = {};
  free_on_gpu_now();
  testing::internal::CaptureStderr();
  allocate_blocks({.piece_bytes = kPageBytes / 4, .layers = 2, .gap_bytes = 3, .count = kStored});
  blocks_ = tier_->register_gpu_blocks(described()).value();
  expect_copies("takes pages from their blocks by copies of each piece: kernels move 16 bytes");
}

// The scatter has what it needs, and the gather has not.
TEST_F(GpuBlocksPut, CopiesBringPagesWithoutMemoryForTheKernel) {
  for (const auto& [call, nth] :
       {std::pair("cuMemAlloc_v2", 2), std::pair("cuModuleLoadData", 2),
        std::pair("cuMemHostRegister_v2", 2), std::pair("cuStreamCreate", 2),
        std::pair("cuStreamCreate", 6), std::pair("cuMemcpyHtoDAsync_v2", 2),
        std::pair("cuMemcpyDtoHAsync_v2", 2)}) {
    if (tier_ == nullptr) open_with({});
    blocks_ = {};
    testing::internal::CaptureStderr();
    fake_->fail_call(call, nth, cuda::kOutOfMemory);
    blocks_ = tier_->register_gpu_blocks(described()).value();
    expect_copies("cuda:0 takes pages from their blocks by copies of each piece: ");
    const uint64_t before = fake_->calls("cuLaunchKernel");
    EXPECT_TRUE(are_ready(tier_->fetch(requests(2), kTimeoutUs).value()));
    EXPECT_GT(fake_->calls("cuLaunchKernel"), before) << call;
  }
}

// The put goes on all the same.
TEST_F(GpuBlocksPut, CopiesBringPagesOnceTheDriverRefusesTheKernel) {
  open_with({});
  write_blocks(4);
  testing::internal::CaptureStderr();
  fake_->fail_call("cuLaunchKernel", 1, kInvalidValue);
  EXPECT_EQ(put_all(4, kPutKey), Code::kOk) << ticket_.why();
  EXPECT_TRUE(is_stored(kPutKey, 4));
  next_key_ += 4;
  expect_copies("as the driver refuses the kernel: farpage_gather_pages");
}

TEST_F(GpuBlocksPut, WorkThatTheGpuReadsWronglyIsNotPut) {
  open_with({.spoil_items_every = 5});  // two were tried before
  write_blocks(kStored);
  testing::internal::CaptureStderr();
  EXPECT_EQ(put_all(4, kPutKey), Code::kUnavailable);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("look for errors of PCIe"));
  EXPECT_THAT(std::string(ticket_.why()), HasSubstr("read its work on some pages wrongly"));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(is_missing(kPutKey + i)) << i;
  EXPECT_EQ(put_all(1, kPutKey), Code::kOk) << ticket_.why();
  EXPECT_TRUE(is_stored(kPutKey, 1));
}

// More portions than there are slots.
TEST_F(GpuBlocksPut, ManyPutsAtOnceAllComeThrough) {
  bounce_bytes_ = 64 * 256 * kKiB;
  open_with({.delay_us = 50}, options());
  write_blocks(kStored);
  for (int round = 0; round < 10; ++round) {
    std::vector<Ticket> tickets;
    for (size_t i = 0; i < kStored; ++i) {
      const std::array one = {PutRequest{key(next_key_ + i), block(place(i))}};
      tickets.push_back(tier_->put(one, kTimeoutUs).value());
    }
    for (const Ticket& ticket : tickets) {
      ticket.wait();
      EXPECT_EQ(ticket.results()[0].code, Code::kOk) << ticket.why();
    }
    EXPECT_TRUE(is_stored(next_key_, kStored));
    next_key_ += kStored;
  }
}

// The kernels of a device that stands still have all slots: it may have no processor for them.
TEST_F(GpuBlocksPut, CopiesBringPagesWhereAllSlotsAreTaken) {
  bounce_bytes_ = 64 * 256 * kKiB;
  open_with({}, options());
  constexpr size_t kPuts = 2 * cuda::PageGather::kSlots;
  write_blocks(kPuts);
  fake_->hold(nullptr);
  const uint64_t before = gathers();
  std::vector<Ticket> tickets;
  for (size_t i = 0; i < kPuts; ++i) {
    const std::array one = {PutRequest{key(kPutKey + i), block(place(i))}};
    tickets.push_back(tier_->put(one, kTimeoutUs).value());
  }
  until([&] { return copies() >= kPuts; });
  EXPECT_EQ(gathers(), before + cuda::PageGather::kSlots);
  fake_->release(nullptr);
  for (const Ticket& ticket : tickets) {
    ticket.wait();
    EXPECT_EQ(ticket.results()[0].code, Code::kOk) << ticket.why();
  }
  EXPECT_TRUE(is_stored(kPutKey, kPuts));
}

TEST_F(GpuBlocksPut, DeadlineHoldsWhereTheKernelStandsStill) {
  open_with({});
  write_blocks(4);
  fake_->hold(nullptr);
  const uint64_t before = gathers();
  const Ticket ticket = tier_->put(puts(4, kPutKey), 50'000).value();
  until([&] { return gathers() > before; });
  ticket.wait();
  for (const PutResult& page : ticket.results()) EXPECT_EQ(page.code, Code::kTimeout);
  EXPECT_FALSE(ticket.released());  // the kernel may read the blocks still
  fake_->release(nullptr);
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(is_missing(kPutKey + i)) << i;
  EXPECT_EQ(put_all(4, kPutKey), Code::kOk) << ticket_.why();
}

// The kernel has been launched, and goes on.
TEST_F(GpuBlocksPut, RefusalOfWhatComesBehindTheKernelKeepsNoSlot) {
  open_with({});
  write_blocks(kStored);
  for (const auto& [call, result] :
       {std::pair("cuMemcpyDtoHAsync_v2", kInvalidValue), std::pair("cuEventRecord", 802)}) {
    for (uint32_t round = 0; round < 2 * cuda::PageGather::kSlots; ++round) {
      fake_->fail_call(call, 1, result);
      const Code code = put_all(1, kPutKey);
      if (std::string(call) == "cuMemcpyDtoHAsync_v2") {
        EXPECT_EQ(code, Code::kUnavailable);
        EXPECT_TRUE(is_missing(kPutKey));
      }
    }
    const uint64_t before = gathers();
    EXPECT_EQ(put_all(kStored, next_key_), Code::kOk) << ticket_.why();
    EXPECT_TRUE(is_stored(next_key_, kStored));
    EXPECT_GT(gathers(), before) << call;
    next_key_ += kStored;
  }
}

// It is no refusal of the kernel.
TEST_F(GpuBlocksPut, AnErrorOfTheLaunchThatEndsTheContextEndsThePut) {
  open_with({});
  write_blocks(4);
  testing::internal::CaptureStderr();
  fake_->fail_call("cuLaunchKernel", 1, cuda::kIllegalAddress);
  EXPECT_EQ(put_all(4, kPutKey), Code::kUnavailable);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("from now on")));
  memory_ = 0;
  leave_everything();
}

// Between them lie bytes of no page.
TEST_F(GpuBlocksPut, AKernelBringsPagesThatFillNoWholeCacheLines) {
  open_with({});
  blocks_ = {};
  free_on_gpu_now();
  allocate_blocks({.piece_bytes = 16 * 5, .layers = 3, .gap_bytes = 16, .count = kStored});
  blocks_ = tier_->register_gpu_blocks(described()).value();
  ASSERT_NE(shape_.block_bytes() % 64, 0u);
  std::vector<std::byte> page(shape_.block_bytes());
  for (size_t i = 0; i < 5; ++i) {
    std::ranges::fill(page, static_cast<std::byte>(i + 1));
    page.back() = std::byte{77};
    for (size_t piece = 0; piece < pieces_.size(); ++piece) {
      write_at(pieces_[piece] + place(i) * shape_.stride(),
               std::span(page).subspan(piece * shape_.piece_bytes, shape_.piece_bytes));
    }
  }
  const uint64_t before = gathers();
  EXPECT_EQ(put_all(5, kPutKey), Code::kOk) << ticket_.why();
  EXPECT_GT(gathers(), before);
  wipe();
  EXPECT_TRUE(are_ready(tier_->fetch(requests(5, kPutKey), kTimeoutUs).value()));
  for (size_t i = 0; i < 5; ++i) {
    std::ranges::fill(page, static_cast<std::byte>(i + 1));
    page.back() = std::byte{77};
    EXPECT_EQ(block_on_gpu(place(i)), page) << i;
  }
}

TEST_F(GpuBlocksPut, EndOfTheContextEndsThem) {
  open_with({});
  write_blocks(4);
  fake_->hold(nullptr);
  const Ticket under_way = tier_->put(puts(4, kPutKey), kTimeoutUs).value();
  until_copies_are_under_way();
  fake_->break_context(context_, cuda::kIllegalAddress);
  under_way.wait();
  for (const PutResult& page : under_way.results()) EXPECT_EQ(page.code, Code::kUnavailable);
  EXPECT_TRUE(under_way.wait_released(patience_ns()));
  memory_ = 0;
  leave_everything();
}

// Each by its own pieces, at one time.
TEST_F(GpuBlocksPut, TwoRegionsHaveTheirOwnSlots) {
  open_with({.delay_us = 50});
  write_blocks(12);
  const BlockShape first = shape_;
  const uint64_t first_memory = memory_;
  const Region first_blocks = std::move(blocks_);
  const Slice one = first_blocks.slice(place(3) * first.block_bytes(), first.block_bytes());
  allocate_blocks({.piece_bytes = kPageBytes / 8, .layers = 4, .gap_bytes = 64, .count = 12});
  blocks_ = tier_->register_gpu_blocks(described()).value();
  write_blocks(12);
  const std::array of_first = {PutRequest{key(kPutKey + 100), one}};
  const Ticket from_first = tier_->put(of_first, kTimeoutUs).value();
  EXPECT_EQ(put_all(12, kPutKey), Code::kOk) << ticket_.why();
  from_first.wait();
  EXPECT_EQ(from_first.results()[0].code, Code::kOk) << from_first.why();
  EXPECT_TRUE(is_stored(kPutKey, 12));
  const Pages landed(*tier_, 1, 200);
  EXPECT_TRUE(are_ready(tier_->fetch(fetches(landed, kPutKey + 100), kTimeoutUs).value()));
  EXPECT_TRUE(std::ranges::equal(landed.page(0), sources_->page(3)));
  blocks_ = {};
  free_on_gpu_now();
  memory_ = first_memory;
}

}  // namespace
}  // namespace farpage
