#include "tests/transport/cuda/fake/staged_pages.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "transport/cuda/kernels/header_check.h"

namespace farpage {

void StagedPages::stage() {
  stream_ = make_stream();
  host_ = pin(kAllBytes);
  device_ = allocate(kAllBytes);
  std::mt19937_64 random(3);
  std::fill_n(host_, kAllBytes, std::byte{0xEE});
  std::fill_n(host_ + kFindings, kEngine - kFindings, std::byte{0});
  for (uint32_t page = 0; page < kPages; ++page) {
    std::generate_n(payload(page), kPageBytes, [&] { return static_cast<std::byte>(random()); });
    const uint32_t crc =
        ~crc32_iscsi(reinterpret_cast<unsigned char*>(payload(page)), kPageBytes, 0xFFFFFFFFu);
    const PageKey key{page, ~uint64_t{page}};
    const Version version = make_version(1, page + 1);
    header(page) = make_page_header(key, version, kIncarnation, kPageBytes, crc);
    header(page).live = live_token(key, version, kIncarnation);
    cuda::PageItem expected;
    expected.header = device_ + kSlots + page * kSlotBytes;
    expected.payload = expected.header + sizeof(PageHeader);
    expected.key_low = key.low;
    expected.key_high = key.high;
    expected.version = version;
    expected.incarnation = kIncarnation;
    expected.payload_bytes = kPageBytes;
    expected.block = kPages - 1 - page;
    expected.check = cuda::item_check(expected);
    item(page) = expected;
  }
  for (uint32_t i = 0; i < kPieces; ++i) {
    const uint64_t base = device_ + kEngine + uint64_t{i} * kPages * kPieceBytes;
    std::memcpy(host_ + kBases + i * sizeof base, &base, sizeof base);
  }
}

void StagedPages::unstage() {
  destroy(stream_);
  EXPECT_EQ(driver_.free(device_), cuda::kSuccess);
  EXPECT_EQ(driver_.free_host(host_), cuda::kSuccess);
}

bool StagedPages::is_good(uint32_t page) const {
  uint32_t word = 0;
  std::memcpy(&word, host_ + kBitmap + page / 32 * sizeof word, sizeof word);
  return (word >> page % 32 & 1) != 0;
}

bool StagedPages::landed(uint32_t page) {
  for (uint32_t i = 0; i < kPieces; ++i) {
    if (std::memcmp(piece(page, i), payload(page) + i * kPieceBytes, kPieceBytes) != 0)
      return false;
  }
  return true;
}

bool StagedPages::is_untouched(uint32_t page) const {
  for (uint32_t i = 0; i < kPieces; ++i) {
    const std::byte* const at = piece(page, i);
    if (!std::all_of(at, at + kPieceBytes, [](std::byte it) { return it == std::byte{0xEE}; })) {
      return false;
    }
  }
  return true;
}

cuda::PageBatch StagedPages::batch() const {
  cuda::PageBatch batch;
  batch.items = device_ + kItems;
  batch.count = kPages;
  batch.longest_bytes = kPageBytes;
  batch.layout = {reinterpret_cast<const uint64_t*>(device_ + kBases), kPieceBytes, kPieces,
                  kPieceBytes};
  batch.out.findings = reinterpret_cast<uint8_t*>(device_ + kFindings);
  batch.out.bitmap = reinterpret_cast<uint32_t*>(device_ + kBitmap);
  return batch;
}

void StagedPages::check_and_scatter(const cuda::PageKernels& kernels, cuda::FusedKernel kernel) {
  ASSERT_EQ(driver_.copy_to_device(device_, host_, kAllBytes, stream_), cuda::kSuccess);
  const auto started = kernels.check_and_scatter(kernel, stream_, batch());
  ASSERT_TRUE(started) << started.error().message;
  const uint64_t results = kAllBytes - kFindings;
  ASSERT_EQ(driver_.copy_to_host(host_ + kFindings, device_ + kFindings, results, stream_),
            cuda::kSuccess);
  ASSERT_EQ(driver_.wait_for_stream(stream_), cuda::kSuccess);
}

}  // namespace farpage
