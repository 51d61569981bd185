// Pages that a network card writes to a GPU's memory, on their way to blocks of paged memory.

#include "client/gpu/stream_fence.h"
#include "tests/client/gpu/gpu_blocks.h"

namespace farpage {
namespace {

class GpuBlocksLanding : public GpuBlocksClient {
 protected:
  GpuBlocksLanding() { wrap_ = nic(nic_); }
  ~GpuBlocksLanding() override { end(); }

  Ticket fetch(const Notification& notification = {}) const {
    return tier_->fetch(requests(kStored), kTimeoutUs, {}, notification).value();
  }
  bool are_whole() const {
    for (size_t i = 0; i < kStored; ++i) {
      if (!has_source(place(i), i)) return false;
    }
    return true;
  }

  NicSettings nic_;
};

TEST_F(GpuBlocksLanding, GoesToTheBlocksByTheKernelAlone) {
  open_with({.writes_ordering = 0, .flush_options = 2});
  const uint64_t copies = fake_->calls("cuMemcpyHtoDAsync_v2");  // of the pieces' addresses
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(are_whole());
  EXPECT_TRUE(are_others_untouched(kStored));
  EXPECT_EQ(landed("dma-buf"), kStored);
  until([this] { return checked() == kStored; });
  EXPECT_EQ(fake_->calls("cuMemcpyHtoDAsync_v2"), copies);
  EXPECT_EQ(fake_->calls("cuMemcpyDtoDAsync_v2"), 0u);
  EXPECT_EQ(fake_->calls("cuMemcpyBatchAsync_v2"), 0u);
}

TEST_F(GpuBlocksLanding, LeavesTheBlockOfASpoiledPageAlone) {
  nic_.spoil = [this](std::span<std::byte> bytes) {
    if (std::ranges::equal(bytes, sources_->page(5))) bytes[99] ^= std::byte{64};
  };
  open_with({});
  const Ticket ticket = fetch();
  for (size_t i = 0; i < kStored; ++i) {
    EXPECT_EQ(is_ready(ticket, i), i != 5) << i;
    EXPECT_EQ(has_source(place(i), i), i != 5) << i;
  }
  EXPECT_EQ(ticket.verdicts()[5].reason, Reason::kCorrupt);
  EXPECT_TRUE(is_untouched(place(5)));
}

// Copies take the pieces there, from where the pages have landed.
TEST_F(GpuBlocksLanding, NeedsNoKernelForTheBlocks) {
  OpenOptions opened = options();
  opened.gpu.check_copies = false;
  open_with({}, opened);
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(are_whole());
  EXPECT_EQ(landed("dma-buf"), kStored);
  EXPECT_EQ(checked(), 0u);
}

TEST_F(GpuBlocksLanding, IsInTheHostsMemoryForAFetchWithAFence) {
  open_with({});
  const auto fence = tier_->make_fence(0, kStored).value();
  Notification notification;
  notification.fence = &fence->fence();
  ASSERT_TRUE(are_ready(fetch(notification)));
  EXPECT_TRUE(are_whole());
  EXPECT_EQ(landed("host"), kStored);
}

}  // namespace
}  // namespace farpage
