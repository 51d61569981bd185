// What a slot says of its pages, over the fake; tests/client/gpu has fetches that use it.

#include "transport/cuda/copies/page_scatter.h"

#include <algorithm>
#include <array>
#include <vector>

#include "integrity/crc32c.h"
#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kPieceBytes = 64;

class PageScatterOverFake : public FakeDriverTest {
 protected:
  PageScatterOverFake() {
    memory_ = allocate(4 * kPieceBytes);
    const std::array pieces = {memory_, memory_ + 2 * kPieceBytes};
    paged_ =
        PagedMemory::make(
            driver_,
            {.pieces = pieces, .piece_bytes = kPieceBytes, .block_stride = kPieceBytes, .count = 2})
            .value();
    scatter_ = PageScatter::make(*paged_, 2 * kPieceBytes, 1).value();
  }
  ~PageScatterOverFake() override {
    scatter_.reset();
    paged_.reset();
    EXPECT_EQ(driver_.free(memory_), kSuccess);
  }

  // A page whose bytes are all `value`, at the slot's begin.
  void stage(uint32_t slot, std::byte value) {
    const std::vector<std::byte> page(2 * kPieceBytes, value);
    ASSERT_EQ(
        fake_->nic_write(scatter_->address(slot), page.data(), page.size(), NicWrite::kOvertakes),
        kSuccess);
    scatter_->add(slot,
                  {{1, 2}, 3, crc32c(0, page.data(), page.size()), scatter_->address(slot), 1});
  }
  std::vector<std::byte> block_1() const {
    std::vector<std::byte> seen(2 * kPieceBytes);
    EXPECT_EQ(fake_->peek(memory_ + kPieceBytes, seen.data(), kPieceBytes), kSuccess);
    EXPECT_EQ(fake_->peek(memory_ + 3 * kPieceBytes, seen.data() + kPieceBytes, kPieceBytes),
              kSuccess);
    return seen;
  }

  uint64_t memory_ = 0;
  std::unique_ptr<PagedMemory> paged_;
  std::unique_ptr<PageScatter> scatter_;
};

// What was there in the slot's last life does not count.
TEST_F(PageScatterOverFake, APageIsWrittenOnceTheKernelSaysSo) {
  for (const std::byte value : {std::byte{7}, std::byte{9}}) {
    const uint32_t slot = scatter_->take_slot();
    stage(slot, value);
    EXPECT_FALSE(scatter_->is_written(slot, 0));
    ASSERT_TRUE(scatter_->start(slot));
    ASSERT_EQ(scatter_->queue().wait(), kSuccess);
    EXPECT_TRUE(scatter_->is_written(slot, 0));
    EXPECT_EQ(block_1(), std::vector<std::byte>(2 * kPieceBytes, value));
    scatter_->give_back(slot);
  }
}

TEST_F(PageScatterOverFake, ASlotIsTakenOnce) {
  std::vector<bool> taken(PageScatter::kSlots);
  while (scatter_->has_slot()) {
    const uint32_t slot = scatter_->take_slot();
    ASSERT_LT(slot, PageScatter::kSlots);
    EXPECT_FALSE(taken[slot]);
    taken[slot] = true;
  }
  EXPECT_EQ(std::count(taken.begin(), taken.end(), true), PageScatter::kSlots);
}

}  // namespace
}  // namespace farpage::cuda
