// What is refused as blocks of a GPU's paged memory, and what a fetch into them has to be.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/client/gpu/gpu_blocks.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::AllOf;
using testing::HasSubstr;

class GpuBlocksRegistration : public GpuBlocksClient {
 protected:
  GpuBlocksRegistration() { open_with({.devices = 2}); }
  std::string refusal(const cuda::GpuBlocks& blocks) {
    const cuda::FakeCounts before = fake_->live();
    const auto refused = tier_->register_gpu_blocks(blocks);
    EXPECT_EQ(fake_->live(), before);
    if (refused) return "it was taken";
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    return refused.error().message;
  }
  cuda::GpuBlocks changed(std::vector<uint64_t> pieces) {
    changed_ = std::move(pieces);
    cuda::GpuBlocks blocks = described();
    blocks.pieces = changed_;
    return blocks;
  }
  std::string refusal_of_fetch(const std::vector<PageRequest>& wrong) {
    const auto refused = tier_->fetch(wrong, kTimeoutUs);
    return refused ? "it was taken" : refused.error().message;
  }
  std::vector<uint64_t> changed_;
};

TEST_F(GpuBlocksRegistration, RefusesPiecesThatOverlap) {
  EXPECT_THAT(refusal(changed({memory_, memory_ + 64})),
              HasSubstr("pieces 0 and 1 of the blocks overlap"));
  EXPECT_THAT(refusal(changed({memory_ + shape_.stride() - 1, memory_ + 3 * shape_.stride()})),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(changed({pieces_[0], pieces_[2], pieces_[0]})),
              HasSubstr("pieces 0 and 2 of the blocks overlap"));
  cuda::GpuBlocks narrow = described();
  narrow.block_stride = shape_.piece_bytes - 1;
  EXPECT_THAT(refusal(narrow), HasSubstr("blocks are 1023 bytes apart, and a piece has 1024"));
}

TEST_F(GpuBlocksRegistration, RefusesNumbersThatMakeNoBlocks) {
  EXPECT_THAT(refusal(changed({})), HasSubstr("blocks of 0 pieces"));
  EXPECT_THAT(refusal(changed(std::vector<uint64_t>(4097, memory_))), HasSubstr("4097 pieces"));
  cuda::GpuBlocks wrong = described();
  wrong.count = 0;
  EXPECT_THAT(refusal(wrong), HasSubstr("0 blocks whose pieces have 1024 bytes"));
  wrong = described();
  wrong.piece_bytes = 0;
  EXPECT_THAT(refusal(wrong), HasSubstr("are no memory"));
  for (const uint64_t much : {uint64_t{1} << 50, UINT64_MAX}) {
    wrong = described();
    wrong.count = much;
    EXPECT_THAT(refusal(wrong), HasSubstr("more than a GPU has"));
    wrong = described();
    wrong.piece_bytes = much;
    EXPECT_THAT(refusal(wrong), HasSubstr("more than a GPU has"));
    wrong = described();
    wrong.block_stride = much;
    EXPECT_THAT(refusal(wrong), HasSubstr("more than a GPU has"));
  }
  EXPECT_THAT(refusal(changed({UINT64_MAX - 63})), HasSubstr("are no memory"));
}

TEST_F(GpuBlocksRegistration, RefusesWhatIsNoMemoryOfOneGpu) {
  std::byte* const pinned = pin(shape_.count * shape_.stride());
  EXPECT_THAT(refusal(changed({reinterpret_cast<uint64_t>(pinned)})), HasSubstr("are host memory"));
  EXPECT_EQ(driver_.free_host(pinned), kSuccess);
  cuda::GpuBlocks many = changed({pieces_[0]});
  many.count = 1'000;
  EXPECT_THAT(refusal(many), HasSubstr("are mapped memory of cuda:0"));
  cuda::Context second = nullptr;
  ASSERT_EQ(driver_.retain_context(&second, 1), kSuccess);
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  const uint64_t there = allocate(shape_.count * shape_.stride());
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  EXPECT_THAT(refusal(changed({pieces_[0], there})),
              AllOf(HasSubstr("cuda:0"), HasSubstr("cuda:1"), HasSubstr("by themselves")));
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  EXPECT_EQ(driver_.free(there), kSuccess);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  ASSERT_EQ(driver_.release_context(1), kSuccess);
}

TEST_F(GpuBlocksRegistration, RefusesBlocksThatNoNodeHas) {
  cuda::GpuBlocks longer =
      changed({pieces_[0], pieces_[1], pieces_[2], pieces_[3], memory_ + 2 * shape_.piece_bytes});
  longer.count = 1;
  EXPECT_THAT(refusal(longer), HasSubstr("a block has 5120 bytes, and the nodes' pages 4096"));
}

TEST_F(GpuBlocksRegistration, FetchTakesWholeBlocksOfOneRegionAlone) {
  const Region plain = registered(1);
  const uint64_t bytes = shape_.block_bytes();
  const PageRequest good = {key(0), 0, block(0)};
  EXPECT_THAT(refusal_of_fetch({good, {key(1), 0, blocks_.slice(bytes + 64, bytes)}}),
              HasSubstr("page 1 of the fetch is no whole block: it has 4096 bytes at offset 4160"));
  EXPECT_THAT(refusal_of_fetch({good, {key(1), 0, blocks_.slice(bytes, bytes / 2)}}),
              HasSubstr("where each block has 4096"));
  EXPECT_THAT(refusal_of_fetch({good, {key(1), 0, plain.slice(0, kPageBytes)}}),
              HasSubstr("pages 0 and 1 of the fetch would land in blocks in memory of cuda:0 and "
                        "in other memory of cuda:0"));
  EXPECT_THAT(refusal_of_fetch({{key(1), 0, plain.slice(0, kPageBytes)}, good}),
              HasSubstr("in memory of cuda:0 and in other blocks in memory of cuda:0"));
  EXPECT_THAT(refusal_of_fetch({good, {key(1), 0, block(0)}}),
              HasSubstr("would land in the same bytes"));
  const PutRequest put = {key(900), blocks_.slice(0, 64)};
  EXPECT_THAT(tier_->put({&put, 1}, kTimeoutUs).error().message,
              HasSubstr("page 0 of the put is no whole block: it has 64 bytes at offset 0"));
}

// Slots and a queue of kernels for fetches and for puts, and the streams of these.
TEST_F(GpuBlocksRegistration, LeavesNothingBehind) {
  const cuda::FakeCounts with = fake_->live();
  blocks_ = {};
  const cuda::FakeCounts without = fake_->live();
  EXPECT_EQ(with.device_ranges, without.device_ranges + 2);
  EXPECT_EQ(with.host_ranges, without.host_ranges + 2);
  EXPECT_EQ(with.streams, without.streams + 6);
  EXPECT_EQ(with.events, without.events + 2);
  EXPECT_EQ(with.modules, without.modules + 2);
}

}  // namespace
}  // namespace farpage
