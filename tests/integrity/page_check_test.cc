#include "integrity/page_check.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <set>
#include <string>

namespace farpage {
namespace {

constexpr PageKey kKey{11, 22};
constexpr Version kVersion = make_version(7, 1000);
constexpr uint64_t kIncarnation = 0x1234567890;
constexpr uint32_t kPayloadBytes = 65536;
constexpr PageExpectation kExact{kKey, kVersion, 0, kIncarnation, kPayloadBytes};
constexpr PageExpectation kAnyVersion{kKey, 0, 0, kIncarnation, 0};

PageHeader live_header(const PageKey& key, Version version, uint64_t incarnation) {
  PageHeader header = make_page_header(key, version, incarnation, kPayloadBytes, 0xCAFE);
  header.live = live_token(key, version, incarnation);
  return header;
}

PageHeader good_header() {
  return live_header(kKey, kVersion, kIncarnation);
}

PageHeader with_flipped(size_t bit) {
  std::array<unsigned char, sizeof(PageHeader)> bytes;
  PageHeader header = good_header();
  std::memcpy(bytes.data(), &header, bytes.size());
  bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  std::memcpy(static_cast<void*>(&header), bytes.data(), bytes.size());
  return header;
}

TEST(PageCheck, AWholeLivePageIsGood) {
  EXPECT_EQ(check_header(good_header(), kExact), PageFinding::kGood);
  EXPECT_EQ(check_header(good_header(), kAnyVersion), PageFinding::kGood);
}

TEST(PageCheck, NoSingleFlippedBitIsGood) {
  for (size_t bit = 0; bit < 8 * sizeof(PageHeader); ++bit) {
    const PageHeader header = with_flipped(bit);
    EXPECT_NE(check_header(header, kExact), PageFinding::kGood) << "bit " << bit;
    EXPECT_NE(check_header(header, kAnyVersion), PageFinding::kGood) << "bit " << bit;
  }
}

// A page that its header shows exactly is good, and a header shows every good page, but for damage
// in fields that are only used after a check of their own.
TEST(PageCheck, NoFlippedBitThatCountsShowsThePageExactly) {
  const auto shows = [](const PageHeader& header) {
    return shows_exactly(header, kKey, kVersion, kIncarnation, kPayloadBytes);
  };
  EXPECT_TRUE(shows(good_header()));
  for (size_t bit = 0; bit < 8 * sizeof(PageHeader); ++bit) {
    const PageHeader header = with_flipped(bit);
    const size_t byte = bit / 8;
    const auto is_of = [byte](size_t offset, size_t size) {
      return byte >= offset && byte < offset + size;
    };
    const bool counts =
        !is_of(offsetof(PageHeader, reserved), sizeof(PageHeader::reserved)) &&
        !is_of(offsetof(PageHeader, payload_crc), sizeof(PageHeader::payload_crc)) &&
        !is_of(offsetof(PageHeader, name_space), sizeof(PageHeader::name_space)) &&
        !is_of(offsetof(PageHeader, header_crc), sizeof(PageHeader::header_crc));
    EXPECT_EQ(shows(header), !counts) << "bit " << bit;
  }
}

TEST(PageCheck, AHeaderShowsOnlyThePageThatIsWanted) {
  const PageHeader header = good_header();
  EXPECT_TRUE(shows_exactly(header, kKey, kVersion, kIncarnation, 0));
  EXPECT_FALSE(shows_exactly(header, {11, 23}, kVersion, kIncarnation, 0));
  EXPECT_FALSE(shows_exactly(header, {12, 22}, kVersion, kIncarnation, 0));
  EXPECT_FALSE(shows_exactly(header, kKey, kVersion + 1, kIncarnation, 0));
  EXPECT_FALSE(shows_exactly(header, kKey, kVersion, kIncarnation + 1, 0));
  EXPECT_FALSE(shows_exactly(header, kKey, kVersion, kIncarnation, kPayloadBytes - 1));
  PageHeader dead = header;
  dead.live = 0;
  EXPECT_FALSE(shows_exactly(dead, kKey, kVersion, kIncarnation, 0));
}

RC_GTEST_PROP(PageCheck, RandomBytesAreNeverGood, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  std::array<uint64_t, 8> words;
  for (uint64_t& word : words) word = random();
  PageHeader header;
  std::memcpy(static_cast<void*>(&header), words.data(), sizeof header);
  RC_ASSERT(check_header(header, kAnyVersion) != PageFinding::kGood);
}

// A read that crosses a rewrite sees words of both headers.
RC_GTEST_PROP(PageCheck, ATornHeaderIsNeverGood, ()) {
  const PageHeader newer = live_header(kKey, kVersion + 1, kIncarnation);
  const PageHeader older = good_header();
  std::array<uint64_t, 8> words;
  std::array<uint64_t, 8> newer_words;
  std::memcpy(words.data(), &older, sizeof older);
  std::memcpy(newer_words.data(), &newer, sizeof newer);
  const auto from_newer = *rc::gen::inRange<unsigned>(1, 255);
  bool torn_inside = false;
  bool changed = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool differs = words[i] != newer_words[i];
    if ((from_newer >> i & 1) != 0) {
      words[i] = newer_words[i];
      changed = changed || differs;
    } else {
      torn_inside = torn_inside || differs;
    }
  }
  PageHeader torn;
  std::memcpy(static_cast<void*>(&torn), words.data(), sizeof torn);
  const bool good = check_header(torn, kAnyVersion) == PageFinding::kGood;
  RC_ASSERT(good == !(changed && torn_inside));
}

TEST(PageCheck, AZeroedSlotIsNotLive) {
  EXPECT_EQ(check_header(PageHeader{}, kExact), PageFinding::kNotLive);
}

TEST(PageCheck, AClearedOrForeignLiveWordIsNotLive) {
  PageHeader header = good_header();
  header.live = 0;
  EXPECT_EQ(check_header(header, kExact), PageFinding::kNotLive);
  header.live = live_token(kKey, kVersion - 1, kIncarnation);
  EXPECT_EQ(check_header(header, kExact), PageFinding::kNotLive);
}

TEST(PageCheck, AnotherIncarnationIsCorruptEvenIfWhole) {
  EXPECT_EQ(check_header(live_header(kKey, kVersion, kIncarnation + 1), kExact),
            PageFinding::kCorrupt);
}

TEST(PageCheck, AnotherFormatIsCorruptEvenWithARightCrc) {
  PageHeader header = good_header();
  header.format = kPageFormat + 1;
  header.header_crc = header_crc(header);
  EXPECT_EQ(check_header(header, kExact), PageFinding::kCorrupt);
  header = good_header();
  header.magic = 0;
  header.header_crc = header_crc(header);
  EXPECT_EQ(check_header(header, kExact), PageFinding::kCorrupt);
}

TEST(PageCheck, AnotherKeyIsAnotherPage) {
  EXPECT_EQ(check_header(live_header({11, 23}, kVersion, kIncarnation), kExact),
            PageFinding::kOtherPage);
  EXPECT_EQ(check_header(live_header({12, 22}, kVersion, kIncarnation), kExact),
            PageFinding::kOtherPage);
}

TEST(PageCheck, VersionsAreExactOrAtLeastTheLowest) {
  EXPECT_EQ(check_header(live_header(kKey, kVersion + 1, kIncarnation), kExact),
            PageFinding::kOtherVersion);
  PageExpectation at_least = kAnyVersion;
  at_least.min_version = kVersion;
  EXPECT_EQ(check_header(good_header(), at_least), PageFinding::kGood);
  EXPECT_EQ(check_header(live_header(kKey, kVersion + 1, kIncarnation), at_least),
            PageFinding::kGood);
  EXPECT_EQ(check_header(live_header(kKey, kVersion - 1, kIncarnation), at_least),
            PageFinding::kOtherVersion);
}

TEST(PageCheck, AnotherLengthIsNotTaken) {
  PageExpectation shorter = kExact;
  shorter.payload_bytes = 4096;
  EXPECT_EQ(check_header(good_header(), shorter), PageFinding::kOtherLength);
}

TEST(PageCheck, EveryFindingHasANameOfItsOwn) {
  std::set<std::string> names;
  constexpr auto kLast = static_cast<int>(PageFinding::kOtherLength);
  for (int i = 0; i <= kLast; ++i) names.insert(finding_name(static_cast<PageFinding>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kLast) + 1);
  EXPECT_STREQ(finding_name(static_cast<PageFinding>(100)), "unknown");
}

}  // namespace
}  // namespace farpage
