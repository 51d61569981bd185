// What a slot has of blocks, over the fake; tests/client/gpu has puts that use it.

#include "transport/cuda/copies/page_gather.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kPieceBytes = 64;
constexpr uint64_t kPageBytes = 3 * kPieceBytes;
constexpr uint64_t kBlocks = 4;
constexpr uint32_t kMostPages = 3;
constexpr std::byte kUntouched{0xA5};  // what the fake fills new memory with

// Pages whose pieces lie far apart, in another order than that of their bytes.
class PageGatherOverFake : public FakeDriverTest {
 protected:
  ~PageGatherOverFake() override {
    gather_.reset();
    paged_.reset();
    if (memory_ != 0) {
      EXPECT_EQ(driver_.free(memory_), kSuccess);
    }
  }

  void open(const FakeSettings& settings) {
    start(settings);
    memory_ = allocate(3 * kBlocks * kPieceBytes);
    const uint64_t apart = kBlocks * kPieceBytes;
    const std::array pieces = {memory_ + 2 * apart, memory_, memory_ + apart};
    paged_ = PagedMemory::make(driver_, {.pieces = pieces,
                                         .piece_bytes = kPieceBytes,
                                         .block_stride = kPieceBytes,
                                         .count = kBlocks})
                 .value();
    for (uint64_t block = 0; block < kBlocks; ++block) {
      for (uint64_t piece = 0; piece < 3; ++piece) write(pieces[piece], block, piece);
    }
    gather_ = PageGather::make(*paged_, kMostPages * kPageBytes, kMostPages).value();
  }
  static std::byte value(uint64_t block, uint64_t piece) {
    return static_cast<std::byte>(1 + block * 16 + piece);
  }
  void write(uint64_t first, uint64_t block, uint64_t piece) {
    const std::vector<std::byte> bytes(kPieceBytes, value(block, piece));
    ASSERT_EQ(fake_->nic_write(first + block * kPieceBytes, bytes.data(), kPieceBytes,
                               NicWrite::kOvertakes),
              kSuccess);
  }

  void add(uint32_t slot, uint64_t block, uint64_t place) {
    gather_->add(slot, block, place * kPageBytes);
  }
  std::vector<std::byte> page(uint32_t slot, uint64_t place) const {
    std::vector<std::byte> seen(kPageBytes);
    EXPECT_EQ(fake_->peek(gather_->address(slot) + place * kPageBytes, seen.data(), kPageBytes),
              kSuccess);
    return seen;
  }
  bool has(uint32_t slot, uint64_t place, uint64_t block) const {
    const auto seen = page(slot, place);
    for (uint64_t i = 0; i < kPageBytes; ++i) {
      if (seen[i] != value(block, i / kPieceBytes)) return false;
    }
    return true;
  }
  bool is_untouched(uint32_t slot, uint64_t place) const {
    return std::ranges::all_of(page(slot, place), [](std::byte it) { return it == kUntouched; });
  }
  void run(uint32_t slot) {
    ASSERT_EQ(gather_->start(slot), kSuccess);
    ASSERT_EQ(driver_.wait_for_stream(gather_->stream(slot)), kSuccess);
  }

  uint64_t memory_ = 0;
  std::unique_ptr<PagedMemory> paged_;
  std::unique_ptr<PageGather> gather_;
};

TEST_F(PageGatherOverFake, PiecesOfAPageLieOneBehindTheOther) {
  open({});
  const uint32_t slot = gather_->take_slot();
  add(slot, 3, 0);
  add(slot, 0, 2);
  EXPECT_FALSE(gather_->are_there(slot));
  run(slot);
  EXPECT_TRUE(gather_->are_there(slot));
  EXPECT_TRUE(has(slot, 0, 3));
  EXPECT_TRUE(is_untouched(slot, 1));
  EXPECT_TRUE(has(slot, 2, 0));
}

// What was there in its last life does not count.
TEST_F(PageGatherOverFake, ASlotThatIsTakenAgainHasNothing) {
  open({});
  for (const uint64_t block : {uint64_t{1}, uint64_t{2}}) {
    const uint32_t slot = gather_->take_slot();
    add(slot, block, 0);
    EXPECT_FALSE(gather_->are_there(slot));
    run(slot);
    EXPECT_TRUE(gather_->are_there(slot));
    EXPECT_TRUE(has(slot, 0, block));
    gather_->give_back(slot);
  }
}

// The kernel would read another page's block, and nothing would see it.
TEST_F(PageGatherOverFake, AnItemThatIsSpoiledBringsNoPage) {
  open({.spoil_items_every = 3});  // the second here, behind the one that was tried
  const uint32_t slot = gather_->take_slot();
  for (uint64_t i = 0; i < kMostPages; ++i) add(slot, i, i);
  run(slot);
  EXPECT_FALSE(gather_->are_there(slot));
  EXPECT_TRUE(has(slot, 0, 0));
  EXPECT_TRUE(is_untouched(slot, 1));
  EXPECT_TRUE(has(slot, 2, 2));
}

TEST_F(PageGatherOverFake, ASlotIsTakenOnce) {
  open({});
  std::vector<bool> taken(PageGather::kSlots);
  while (gather_->has_slot()) {
    const uint32_t slot = gather_->take_slot();
    ASSERT_LT(slot, PageGather::kSlots);
    EXPECT_FALSE(taken[slot]);
    taken[slot] = true;
  }
  EXPECT_EQ(std::ranges::count(taken, true), PageGather::kSlots);
}

TEST_F(PageGatherOverFake, ARefusedKernelIsAnErrorAndReadsNothing) {
  open({});
  const uint32_t slot = gather_->take_slot();
  add(slot, 1, 0);
  fake_->fail_call("cuLaunchKernel", 1, kInvalidValue);
  EXPECT_EQ(gather_->start(slot), kInvalidValue);
  EXPECT_EQ(driver_.wait_for_stream(gather_->stream(slot)), kSuccess);
  EXPECT_FALSE(gather_->are_there(slot));
  EXPECT_TRUE(is_untouched(slot, 0));
}

TEST_F(PageGatherOverFake, FailureAtAnyCallOfMakingItLeavesNothing) {
  open({});
  gather_.reset();
  const FakeCounts before = fake_->live();
  for (const char* const call :
       {"cuModuleLoadData", "cuModuleGetFunction", "cuMemHostRegister_v2",
        "cuMemHostGetDevicePointer_v2", "cuStreamCreate", "cuEventCreate", "cuMemAlloc_v2",
        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel"}) {
    fake_->fail_call(call, 1, kOutOfMemory);
    const auto made = PageGather::make(*paged_, kMostPages * kPageBytes, kMostPages);
    ASSERT_FALSE(made) << call;
    EXPECT_FALSE(made.error().message.empty());
    EXPECT_EQ(fake_->live(), before) << call;
  }
}

}  // namespace
}  // namespace farpage::cuda
