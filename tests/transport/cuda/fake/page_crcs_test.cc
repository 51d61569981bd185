// The seam's CRC kernel over the fake, against isa-l's own.

#include <isa-l/crc.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"
#include "transport/cuda/page_kernels.h"

namespace farpage {
namespace {

using cuda::kSuccess;

struct Piece {
  uint32_t at;
  uint32_t bytes;
};

class PageCrcs : public FakeDriverTest {
 protected:
  static constexpr uint32_t kMemory = 256 * 1024;

  void expect_right(const std::vector<Piece>& pieces) {
    const auto count = static_cast<uint32_t>(pieces.size());
    const uint64_t items_at = kMemory;
    const uint64_t crcs_at = items_at + count * sizeof(cuda::PageItem);
    const uint64_t all_bytes = crcs_at + count * sizeof(uint32_t);
    const auto kernels = cuda::PageKernels::load(driver_, 0);
    ASSERT_TRUE(kernels) << kernels.error().message;
    const cuda::Stream stream = make_stream();
    const uint64_t device = allocate(all_bytes);
    std::byte* const host = pin(all_bytes);
    std::mt19937_64 random(6);
    for (uint32_t at = 0; at < kMemory; ++at) host[at] = static_cast<std::byte>(random());
    for (uint32_t i = 0; i < count; ++i) {
      cuda::PageItem item;
      item.payload = device + pieces[i].at;
      item.payload_bytes = pieces[i].bytes;
      std::memcpy(host + items_at + i * sizeof item, &item, sizeof item);
    }
    cuda::PageBatch batch;
    batch.items = device + items_at;
    batch.count = count;
    batch.longest_bytes = kMemory;
    batch.out.crcs = reinterpret_cast<uint32_t*>(device + crcs_at);
    EXPECT_EQ(driver_.copy_to_device(device, host, crcs_at, stream), kSuccess);
    EXPECT_TRUE(kernels->crcs(stream, batch));
    EXPECT_EQ(driver_.copy_to_host(host + crcs_at, device + crcs_at, count * 4, stream), kSuccess);
    destroy(stream);
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t crc = 0;
      std::memcpy(&crc, host + crcs_at + i * sizeof crc, sizeof crc);
      auto* const page = reinterpret_cast<unsigned char*>(host + pieces[i].at);
      EXPECT_EQ(crc, ~crc32_iscsi(page, static_cast<int>(pieces[i].bytes), 0xFFFFFFFFu))
          << pieces[i].bytes << " bytes at " << pieces[i].at;
    }
    EXPECT_EQ(driver_.free(device), kSuccess);
    EXPECT_EQ(driver_.free_host(host), kSuccess);
    cuda::PageKernels(*kernels).unload();
  }
};

// An odd number of pages: the last block has one.
TEST_F(PageCrcs, are_right_for_every_short_length_and_alignment) {
  std::vector<Piece> pieces;
  for (uint32_t bytes = 1; bytes <= 1033; ++bytes) pieces.push_back({bytes % 64 / 4 * 4, bytes});
  expect_right(pieces);
}

TEST_F(PageCrcs, are_right_for_long_pages_at_every_alignment) {
  std::vector<Piece> pieces;
  for (uint32_t at = 0; at < 128; at += 4) {
    pieces.push_back({at, 65536});
    pieces.push_back({at, 16384 + at + 1});
    pieces.push_back({at, 229376 - at});
  }
  expect_right(pieces);
}

}  // namespace
}  // namespace farpage
