// Memory of a GPU in the C API, over the fake driver.

#include <farpage/farpage.h>
#include <farpage/fence.h>
#include <gmock/gmock.h>

#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::HasSubstr;

constexpr uint64_t kBytes = 4096;
constexpr uint64_t kPatienceUs = 20'000'000;

class GpuInC : public FakeDriverTest {
 protected:
  GpuInC() {
    EXPECT_EQ(farpage_open("[client]\nembedded = true\n[embedded]\npool_bytes = \"8MiB\"\n"
                           "page_bytes = 4096\n[gpu]\nbounce_bytes = \"64KiB\"\n",
                           &client_),
              FARPAGE_OK)
        << farpage_last_error();
    pool_ = allocate(2 * kBytes);
    EXPECT_EQ(farpage_register_gpu(client_, pool_, 2 * kBytes, &region_), FARPAGE_OK)
        << farpage_last_error();
  }
  ~GpuInC() override {
    EXPECT_EQ(farpage_close(client_), FARPAGE_OK) << farpage_last_error();
    EXPECT_EQ(driver_.free(pool_), kSuccess);
  }

  static farpage_page_t page_at(uint64_t address, uint8_t number) {
    farpage_page_t page = FARPAGE_PAGE_INIT;
    page.key.bytes[0] = number;
    page.data = reinterpret_cast<void*>(address);
    page.bytes = kBytes;
    return page;
  }
  void put(uint8_t number) {
    std::vector<uint8_t> memory(kBytes, number);
    farpage_region_t* region = nullptr;
    ASSERT_EQ(farpage_register(client_, memory.data(), kBytes, &region), FARPAGE_OK);
    const auto page = page_at(reinterpret_cast<uint64_t>(memory.data()), number);
    farpage_ticket_t* ticket = nullptr;
    ASSERT_EQ(farpage_put(client_, &page, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK);
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
    farpage_ticket_free(ticket);
    ASSERT_EQ(farpage_unregister(region), FARPAGE_OK);
  }
  farpage_ticket_t* fetch(uint8_t number, uint64_t timeout_us = kPatienceUs) {
    const auto page = page_at(pool_ + kBytes, number);
    farpage_ticket_t* ticket = nullptr;
    EXPECT_EQ(farpage_fetch(client_, &page, 1, timeout_us, nullptr, &ticket), FARPAGE_OK)
        << farpage_last_error();
    return ticket;
  }

  bool is_ready(const farpage_fence_t* fence) const {
    uint32_t bits = 0;
    EXPECT_EQ(fake_->peek(farpage_fence_address(fence) + sizeof(farpage_fence_words_t), &bits, 4),
              kSuccess);
    return bits == 1;
  }

  farpage_t* client_ = nullptr;
  farpage_region_t* region_ = nullptr;
  uint64_t pool_ = 0;
};

TEST_F(GpuInC, IsFetchedInto) {
  put(7);
  farpage_ticket_t* const ticket = fetch(7);
  ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  const farpage_page_verdict_t* verdicts = nullptr;
  size_t count = 0;
  ASSERT_EQ(farpage_ticket_verdicts(ticket, &verdicts, &count), FARPAGE_OK);
  EXPECT_EQ(verdicts[0].verdict, FARPAGE_READY);
  std::vector<uint8_t> seen(kBytes);
  ASSERT_EQ(fake_->peek(pool_ + kBytes, seen.data(), kBytes), kSuccess);
  EXPECT_EQ(seen, std::vector<uint8_t>(kBytes, 7));
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, IsBusyWhileACopyMayWriteIt) {
  put(7);
  fake_->hold(nullptr);
  farpage_ticket_t* ticket = nullptr;
  // On a busy machine the page may land too late for a copy.
  for (uint64_t timeout_us = 50'000; fake_->live().operations == 0; timeout_us *= 2) {
    farpage_ticket_free(ticket);
    ticket = fetch(7, timeout_us);
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  }
  const farpage_page_verdict_t* verdicts = nullptr;
  size_t count = 0;
  ASSERT_EQ(farpage_ticket_verdicts(ticket, &verdicts, &count), FARPAGE_OK);
  EXPECT_EQ(verdicts[0].reason, FARPAGE_REASON_STALLED);
  EXPECT_EQ(verdicts[0].held, 1u);
  EXPECT_EQ(farpage_unregister(region_), FARPAGE_BUSY);
  fake_->release(nullptr);
  ASSERT_EQ(farpage_ticket_wait_released(ticket, kPatienceUs), FARPAGE_OK);
  EXPECT_EQ(farpage_unregister(region_), FARPAGE_OK);
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, IsRegisteredOnce) {
  farpage_region_t* again = nullptr;
  EXPECT_EQ(farpage_register_gpu(client_, pool_ + kBytes, kBytes, &again), FARPAGE_EXISTS);
  EXPECT_EQ(again, nullptr);
}

TEST_F(GpuInC, IsPutFromBehindAStreamOrAtOnce) {
  const cuda::Stream stream = make_stream();
  for (const uint8_t number : {uint8_t{8}, uint8_t{9}}) {
    const auto page = page_at(pool_, number);
    farpage_ticket_t* ticket = nullptr;
    fake_->hold(stream);
    ASSERT_EQ(driver_.fill(pool_, number, kBytes, stream), kSuccess);
    if (number == 8) {
      ASSERT_EQ(farpage_put_behind(client_, &page, 1, kPatienceUs, stream, nullptr, &ticket),
                FARPAGE_OK)
          << farpage_last_error();
      EXPECT_EQ(farpage_ticket_done(ticket), 0);
      fake_->release(stream);
    } else {
      fake_->release(stream);
      ASSERT_EQ(driver_.wait_for_stream(stream), kSuccess);
      ASSERT_EQ(farpage_put(client_, &page, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK)
          << farpage_last_error();
    }
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
    const farpage_put_result_t* results = nullptr;
    size_t count = 0;
    ASSERT_EQ(farpage_ticket_results(ticket, &results, &count), FARPAGE_OK);
    EXPECT_EQ(results[0].code, FARPAGE_OK) << farpage_ticket_why(ticket);
    farpage_ticket_free(ticket);

    std::vector<uint8_t> landed(kBytes);
    farpage_region_t* region = nullptr;
    ASSERT_EQ(farpage_register(client_, landed.data(), kBytes, &region), FARPAGE_OK);
    const auto to = page_at(reinterpret_cast<uint64_t>(landed.data()), number);
    ASSERT_EQ(farpage_fetch(client_, &to, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK);
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
    farpage_ticket_free(ticket);
    EXPECT_EQ(landed, std::vector<uint8_t>(kBytes, number));
    ASSERT_EQ(farpage_unregister(region), FARPAGE_OK);
  }
  destroy(stream);
}

TEST_F(GpuInC, IsBusyWhileAPutMayReadIt) {
  const auto page = page_at(pool_, 7);
  fake_->hold(nullptr);
  farpage_ticket_t* ticket = nullptr;
  ASSERT_EQ(farpage_put(client_, &page, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK);
  EXPECT_EQ(farpage_unregister(region_), FARPAGE_BUSY);
  fake_->release(nullptr);
  ASSERT_EQ(farpage_ticket_wait_released(ticket, kPatienceUs), FARPAGE_OK);
  EXPECT_EQ(farpage_unregister(region_), FARPAGE_OK);
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, RefusesPutsBehindAStreamOfWhatIsNotThere) {
  const auto page = page_at(pool_ + 2 * kBytes, 1);
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_put_behind(client_, &page, 1, kPatienceUs, nullptr, nullptr, &ticket),
            FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("lie in no region"));
  EXPECT_EQ(farpage_put_behind(nullptr, &page, 1, kPatienceUs, nullptr, nullptr, &ticket),
            FARPAGE_INVALID);
}

TEST_F(GpuInC, RefusesWhatIsMissing) {
  farpage_region_t* region = nullptr;
  EXPECT_EQ(farpage_register_gpu(nullptr, pool_, kBytes, &region), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu(client_, pool_, kBytes, nullptr), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu(client_, 0, 0, &region), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("the 0 bytes at 0x0 are no memory"));
}

TEST_F(GpuInC, TakesBlocksThatLieInPieces) {
  put(7);
  constexpr uint64_t kPiece = kBytes / 2;
  const uint64_t memory = allocate(4 * kBytes);
  const uint64_t pieces[] = {memory + 2 * kBytes, memory};
  farpage_gpu_blocks_t blocks = FARPAGE_GPU_BLOCKS_INIT;
  blocks.pieces = pieces;
  blocks.piece_count = 2;
  blocks.piece_bytes = kPiece;
  blocks.block_stride = kPiece;
  blocks.blocks = 4;
  farpage_region_t* region = nullptr;
  ASSERT_EQ(farpage_register_gpu_blocks(client_, &blocks, &region), FARPAGE_OK)
      << farpage_last_error();
  const auto page = page_at(farpage_region_address(region) + 3 * kBytes, 7);
  farpage_ticket_t* ticket = nullptr;
  ASSERT_EQ(farpage_fetch(client_, &page, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK)
      << farpage_last_error();
  ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  farpage_ticket_free(ticket);
  for (const uint64_t piece : pieces) {
    std::vector<uint8_t> seen(kPiece);
    ASSERT_EQ(fake_->peek(piece + 3 * kPiece, seen.data(), kPiece), kSuccess);
    EXPECT_EQ(seen, std::vector<uint8_t>(kPiece, 7));
  }
  const auto half = page_at(farpage_region_address(region) + kPiece, 7);
  EXPECT_EQ(farpage_fetch(client_, &half, 1, kPatienceUs, nullptr, &ticket), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("is no whole block"));
  EXPECT_EQ(farpage_unregister(region), FARPAGE_OK);
  EXPECT_EQ(driver_.free(memory), kSuccess);
}

TEST_F(GpuInC, RefusesBlocksThatAreNone) {
  farpage_region_t* region = nullptr;
  farpage_gpu_blocks_t blocks = FARPAGE_GPU_BLOCKS_INIT;
  EXPECT_EQ(farpage_register_gpu_blocks(client_, nullptr, &region), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu_blocks(nullptr, &blocks, &region), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu_blocks(client_, &blocks, nullptr), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu_blocks(client_, &blocks, &region), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("blocks of 0 pieces"));
  blocks.piece_count = 1;
  EXPECT_EQ(farpage_register_gpu_blocks(client_, &blocks, &region), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("pieces is null"));
  blocks.struct_size = 8;
  EXPECT_EQ(farpage_register_gpu_blocks(client_, &blocks, &region), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("struct_size is 8"));
  EXPECT_EQ(region, nullptr);
  EXPECT_EQ(farpage_region_address(nullptr), 0u);
  EXPECT_EQ(farpage_region_address(region_), pool_);
}

TEST_F(GpuInC, HasFencesForFetchesIntoIt) {
  put(7);
  farpage_fence_t* fence = nullptr;
  ASSERT_EQ(farpage_fence_new(client_, 0, 1, &fence), FARPAGE_OK) << farpage_last_error();
  farpage_notification_t told = FARPAGE_NOTIFICATION_INIT;
  told.fence = fence;
  const uint64_t seen = allocate(kBytes);
  const cuda::Stream stream = make_stream();
  const auto page = page_at(pool_, 7);
  farpage_ticket_t* ticket = nullptr;
  ASSERT_EQ(farpage_fetch(client_, &page, 1, kPatienceUs, &told, &ticket), FARPAGE_OK);
  ASSERT_EQ(farpage_fence_wait(fence, stream), FARPAGE_OK) << farpage_last_error();
  ASSERT_EQ(driver_.copy_on_device(seen, pool_, kBytes, stream), kSuccess);
  ASSERT_EQ(driver_.wait_for_stream(stream), kSuccess);
  std::vector<uint8_t> bytes(kBytes);
  ASSERT_EQ(fake_->peek(seen, bytes.data(), kBytes), kSuccess);
  EXPECT_EQ(bytes, std::vector<uint8_t>(kBytes, 7));
  EXPECT_TRUE(is_ready(fence));
  farpage_ticket_free(ticket);

  EXPECT_EQ(farpage_fence_clear(fence), FARPAGE_OK);
  EXPECT_FALSE(is_ready(fence));
  farpage_fence_free(fence);
  farpage_fence_free(nullptr);
  destroy(stream);
  EXPECT_EQ(driver_.free(seen), kSuccess);
}

TEST_F(GpuInC, HasAFenceWithoutReadyPagesAfterAFetchThatWasRefused) {
  put(7);
  farpage_fence_t* fence = nullptr;
  ASSERT_EQ(farpage_fence_new(client_, 0, 1, &fence), FARPAGE_OK);
  farpage_notification_t told = FARPAGE_NOTIFICATION_INIT;
  told.fence = fence;
  const auto page = page_at(pool_, 7);
  const auto elsewhere = page_at(pool_ + 2 * kBytes, 7);
  for (const auto* refused : {&elsewhere, static_cast<const farpage_page_t*>(nullptr)}) {
    farpage_ticket_t* ticket = nullptr;
    ASSERT_EQ(farpage_fetch(client_, &page, 1, kPatienceUs, &told, &ticket), FARPAGE_OK);
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
    farpage_ticket_free(ticket);
    EXPECT_TRUE(is_ready(fence));
    EXPECT_EQ(farpage_fetch(client_, refused, 1, kPatienceUs, &told, &ticket), FARPAGE_INVALID);
    EXPECT_FALSE(is_ready(fence));
  }
  farpage_fence_free(fence);
}

TEST_F(GpuInC, HasAFenceThatAFetchUnderWayKeeps) {
  put(7);
  farpage_fence_t* fence = nullptr;
  ASSERT_EQ(farpage_fence_new(client_, 0, 1, &fence), FARPAGE_OK);
  farpage_notification_t told = FARPAGE_NOTIFICATION_INIT;
  told.fence = fence;
  const auto page = page_at(pool_, 7);
  fake_->hold(nullptr);
  farpage_ticket_t* ticket = nullptr;
  ASSERT_EQ(farpage_fetch(client_, &page, 1, kPatienceUs, &told, &ticket), FARPAGE_OK);
  farpage_ticket_t* second = nullptr;
  EXPECT_EQ(farpage_fetch(client_, &page, 1, kPatienceUs, &told, &second), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("use another fence"));
  EXPECT_EQ(farpage_fence_clear(fence), FARPAGE_BUSY);
  farpage_fence_free(fence);
  fake_->release(nullptr);
  EXPECT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, HasNoFenceForOtherOperationsThanFetches) {
  farpage_fence_t* fence = nullptr;
  ASSERT_EQ(farpage_fence_new(client_, 0, 1, &fence), FARPAGE_OK);
  farpage_notification_t told = FARPAGE_NOTIFICATION_INIT;
  told.fence = fence;
  farpage_key_t key = {};
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_exists(client_, &key, 1, kPatienceUs, &told, &ticket), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("a fence is for fetches alone"));
  EXPECT_EQ(farpage_remove(client_, &key, 1, kPatienceUs, &told, &ticket), FARPAGE_INVALID);
  const auto page = page_at(pool_, 7);
  farpage_t* other = nullptr;
  ASSERT_EQ(farpage_open("[client]\nembedded = true\n", &other), FARPAGE_OK);
  EXPECT_EQ(farpage_fetch(other, &page, 1, kPatienceUs, &told, &ticket), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("its fence is another client's"));
  ASSERT_EQ(farpage_close(other), FARPAGE_OK);
  farpage_fence_free(fence);
  EXPECT_EQ(farpage_fence_new(client_, 0, 0, &fence), FARPAGE_INVALID);
  EXPECT_EQ(farpage_fence_wait(nullptr, nullptr), FARPAGE_INVALID);
  EXPECT_EQ(farpage_fence_clear(nullptr), FARPAGE_INVALID);
  EXPECT_EQ(farpage_fence_address(nullptr), 0u);
}

}  // namespace
}  // namespace farpage
