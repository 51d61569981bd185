#include "integrity/page_header.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>

namespace farpage {
namespace {

constexpr PageKey kKey{0x0706050403020100, 0x0F0E0D0C0B0A0908};
constexpr Version kVersion = make_version(3, 0x1122334455);
constexpr uint64_t kIncarnation = 0xA1A2A3A4A5A6A7A8;

// Made by a bitwise CRC-32C and a SplitMix64 written in another language.
constexpr std::array<unsigned char, 64> kGolden = {
    0x46, 0x52, 0x50, 0x47, 0x01, 0x00, 0x00, 0x00,  // "FRPG", format 1, reserved
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,  // key, low
    0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,  // key, high
    0x55, 0x44, 0x33, 0x22, 0x11, 0x03, 0x00, 0x00,  // version: counter, epoch
    0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1,  // incarnation
    0x00, 0x00, 0x01, 0x00, 0xef, 0xbe, 0xad, 0xde,  // payload bytes, payload CRC
    0x00, 0x00, 0x00, 0x00, 0x29, 0x8d, 0x1a, 0xb9,  // reserved, header CRC
    0x7f, 0xca, 0x58, 0xb1, 0x6c, 0xbe, 0x9d, 0x85,  // live word
};

TEST(PageHeader, HasItsDocumentedBytes) {
  PageHeader header = make_page_header(kKey, kVersion, kIncarnation, 65536, 0xDEADBEEF);
  EXPECT_EQ(header.live, 0u);
  header.live = live_token(kKey, kVersion, kIncarnation);
  std::array<unsigned char, 64> bytes;
  std::memcpy(bytes.data(), &header, bytes.size());
  EXPECT_EQ(bytes, kGolden);
}

TEST(PageHeader, VersionsOrderByEpochFirst) {
  EXPECT_EQ(version_epoch(kVersion), 3u);
  EXPECT_LT(make_version(3, kMaxVersionCounter), make_version(4, 0));
  EXPECT_LT(make_version(3, 1), make_version(3, 2));
  EXPECT_EQ(make_version(kMaxEpoch, kMaxVersionCounter), UINT64_MAX);
}

TEST(PageHeader, TheLiveTokenIsNeverZero) {
  EXPECT_NE(live_token(PageKey{}, 0, 0), 0u);
}

RC_GTEST_PROP(PageHeader, TheLiveTokenDependsOnEveryField,
              (uint64_t low, uint64_t high, uint64_t version, uint64_t incarnation)) {
  const PageKey key{low, high};
  const uint64_t token = live_token(key, version, incarnation);
  RC_ASSERT(token != 0);
  const uint64_t flip = uint64_t{1} << *rc::gen::inRange(0, 64);
  RC_ASSERT(live_token({low ^ flip, high}, version, incarnation) != token);
  RC_ASSERT(live_token({low, high ^ flip}, version, incarnation) != token);
  RC_ASSERT(live_token(key, version ^ flip, incarnation) != token);
  RC_ASSERT(live_token(key, version, incarnation ^ flip) != token);
}

}  // namespace
}  // namespace farpage
