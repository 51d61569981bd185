// What counts as an engine's paged memory, over the fake.

#include "transport/cuda/memory/paged_memory.h"

#include <set>
#include <vector>

#include "base/random.h"
#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage::cuda {
namespace {

class PagedMemoryOverFake : public FakeDriverTest {};

// The truth by hand: whether a byte is of two pieces.
bool is_any_byte_of_two(const GpuBlocks& blocks) {
  std::set<uint64_t> seen;
  for (const uint64_t piece : blocks.pieces) {
    for (uint64_t number = 0; number < blocks.count; ++number) {
      for (uint64_t byte = 0; byte < blocks.piece_bytes; ++byte) {
        if (!seen.insert(piece + number * blocks.block_stride + byte).second) return true;
      }
    }
  }
  return false;
}

TEST_F(PagedMemoryOverFake, IsRefusedExactlyWhereAByteIsOfTwoPieces) {
  constexpr uint64_t kBytes = 512;
  const uint64_t memory = allocate(kBytes);
  int refused = 0;
  int taken = 0;
  for (uint64_t seed = 1; seed <= 3'000; ++seed) {
    Random random(seed);
    GpuBlocks blocks;
    blocks.piece_bytes = 1 + random.below(6);
    blocks.count = 1 + random.below(6);
    blocks.block_stride = 1 + random.below(40);
    const uint64_t span = (blocks.count - 1) * blocks.block_stride + blocks.piece_bytes;
    std::vector<uint64_t> pieces(1 + random.below(5));
    for (uint64_t& piece : pieces) piece = memory + random.below(kBytes - span);
    blocks.pieces = pieces;
    const auto made = PagedMemory::make(driver_, blocks);
    EXPECT_EQ(made.has_value(), !is_any_byte_of_two(blocks)) << seed;
    (made ? taken : refused) += 1;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 500);
  EXPECT_EQ(driver_.free(memory), kSuccess);
}

TEST_F(PagedMemoryOverFake, NamesItsBlocksByAddressesOfItsOwn) {
  const uint64_t memory = allocate(4096);
  const std::vector<uint64_t> pieces = {memory + 2048, memory};
  const auto made = PagedMemory::make(
      driver_, {.pieces = pieces, .piece_bytes = 100, .block_stride = 128, .count = 16});
  ASSERT_TRUE(made);
  const PagedMemory& paged = **made;
  EXPECT_EQ(paged.block_bytes(), 200u);
  EXPECT_EQ(paged.bytes(), 16 * 200u);
  EXPECT_TRUE(paged.is_block(paged.data() + 3 * 200, 200));
  EXPECT_EQ(paged.block(paged.data() + 3 * 200), 3u);
  EXPECT_FALSE(paged.is_block(paged.data() + 3 * 200 + 1, 200));
  EXPECT_FALSE(paged.is_block(paged.data() + 3 * 200, 199));
  EXPECT_FALSE(paged.is_block(paged.data(), 400));
  EXPECT_EQ(driver_.free(memory), kSuccess);
}

// Several pieces in one stretch: the driver is asked for each range that is mapped there once.
TEST_F(PagedMemoryOverFake, AsksTheDriverOnceForMemoryThatPiecesShare) {
  constexpr uint64_t kGranules = 8;
  const uint64_t memory = reserve(kGranules * kGranule);
  for (uint64_t i = 0; i < kGranules; ++i) map(memory + i * kGranule);
  std::vector<uint64_t> pieces;
  for (uint64_t i = 0; i < 64; ++i) pieces.push_back(memory + i * 64);
  const uint64_t before = fake_->calls("cuMemGetAddressRange_v2");
  const uint64_t count = kGranules * kGranule / (64 * 64);
  EXPECT_TRUE(PagedMemory::make(
      driver_, {.pieces = pieces, .piece_bytes = 64, .block_stride = 64 * 64, .count = count}));
  EXPECT_EQ(fake_->calls("cuMemGetAddressRange_v2") - before, kGranules);
  EXPECT_EQ(later_.unmap_memory(memory, kGranules * kGranule), kSuccess);
  EXPECT_EQ(later_.free_addresses(memory, kGranules * kGranule), kSuccess);
}

}  // namespace
}  // namespace farpage::cuda
