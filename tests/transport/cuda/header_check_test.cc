#include "transport/cuda/kernels/header_check.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <random>

#include "integrity/page_check.h"

namespace farpage {
namespace {

static_assert(sizeof(cuda::HeaderWords) == sizeof(PageHeader));
static_assert(offsetof(cuda::HeaderWords, version) == offsetof(PageHeader, version));
static_assert(offsetof(cuda::HeaderWords, incarnation) == offsetof(PageHeader, incarnation));
static_assert(offsetof(cuda::HeaderWords, payload_bytes) == offsetof(PageHeader, payload_bytes));
static_assert(offsetof(cuda::HeaderWords, payload_crc) == offsetof(PageHeader, payload_crc));
static_assert(offsetof(cuda::HeaderWords, header_crc) == offsetof(PageHeader, header_crc));
static_assert(offsetof(cuda::HeaderWords, live) == offsetof(PageHeader, live));

constexpr uint64_t kIncarnation = 0x1122334455667788;
constexpr uint32_t kPageBytes = 64 * 1024;
constexpr PageKey kKey{0x0123456789ABCDEF, 0xFEDCBA9876543210};

PageHeader make_header(PageKey key, Version version, uint64_t incarnation, uint32_t bytes) {
  PageHeader header = make_page_header(key, version, incarnation, bytes, 0x89ABCDEF);
  header.live = live_token(key, version, incarnation);
  return header;
}

PageFinding finding_of_kernels(const PageHeader& header, const PageExpectation& expected) {
  static const cuda::CrcConstants constants = cuda::make_crc_constants();
  cuda::HeaderWords words;
  std::memcpy(&words, &header, sizeof words);
  std::array<uint32_t, cuda::kHeaderCrcWords> covered;
  std::memcpy(covered.data(), &header, sizeof covered);
  uint32_t shares = 0;
  for (int at = 0; at < cuda::kHeaderCrcWords; ++at) {
    shares ^= cuda::header_share(covered[at], at, constants);
  }
  cuda::PageItem item;
  item.key_low = expected.key.low;
  item.key_high = expected.key.high;
  item.version = expected.version;
  item.min_version = expected.min_version;
  item.incarnation = expected.incarnation;
  item.payload_bytes = static_cast<uint32_t>(expected.payload_bytes);
  return static_cast<PageFinding>(cuda::judge_header(words, ~shares, item));
}

std::array<PageExpectation, 4> expectations(Version version) {
  return {{{kKey, version, 0, kIncarnation, kPageBytes},
           {kKey, 0, version, kIncarnation, kPageBytes},
           {kKey, 0, version + 1, kIncarnation, kPageBytes},
           {{kKey.low ^ 1, kKey.high}, version, 0, kIncarnation, kPageBytes}}};
}

void expect_same(const PageHeader& header, const PageExpectation& expected, const char* what,
                 uint64_t which) {
  ASSERT_EQ(finding_name(finding_of_kernels(header, expected)),
            finding_name(check_header(header, expected)))
      << what << " " << which;
}

TEST(HeaderCheckOfKernels, takes_the_page_that_is_expected) {
  const Version version = make_version(1, 7);
  EXPECT_EQ(finding_of_kernels(make_header(kKey, version, kIncarnation, kPageBytes),
                               expectations(version)[0]),
            PageFinding::kGood);
}

TEST(HeaderCheckOfKernels, finds_what_check_header_finds_for_each_flipped_bit) {
  const Version version = make_version(1, 7);
  for (const PageExpectation& expected : expectations(version)) {
    for (int bit = 0; bit < 512; ++bit) {
      PageHeader header = make_header(kKey, version, kIncarnation, kPageBytes);
      reinterpret_cast<std::byte*>(&header)[bit / 8] ^= std::byte{1} << bit % 8;
      expect_same(header, expected, "bit", bit);
      // With a CRC that is right again, what is compared decides.
      header.header_crc = header_crc(header);
      expect_same(header, expected, "covered bit", bit);
      header.live = live_token(header.key, header.version, header.incarnation);
      expect_same(header, expected, "bit of a live page", bit);
    }
  }
}

TEST(HeaderCheckOfKernels, finds_what_check_header_finds_for_random_headers) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const auto near = [&](uint64_t value) {
      return random() % 4 == 0 ? value + random() % 3 : value;
    };
    const Version version = near(make_version(1, 7));
    PageHeader header = make_header({near(kKey.low), kKey.high}, version, near(kIncarnation),
                                    static_cast<uint32_t>(near(kPageBytes)));
    if (random() % 8 == 0) header.live = random() % 2 * random();
    if (random() % 8 == 0) {
      auto* bytes = reinterpret_cast<std::byte*>(&header);
      for (int k = 0; k < 3; ++k)
        bytes[random() % sizeof header] = static_cast<std::byte>(random());
    }
    for (const PageExpectation& expected : expectations(make_version(1, 8))) {
      expect_same(header, expected, "header", i);
    }
  }
}

}  // namespace
}  // namespace farpage
