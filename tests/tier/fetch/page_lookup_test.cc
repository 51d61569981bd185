#include "tier/fetch/page_lookup.h"

#include <gtest/gtest.h>

#include <array>

namespace farpage {
namespace {

constexpr uint64_t kIncarnation = 77;
constexpr Geometry kGeometry = {.page_bytes = 1024, .slots = 100, .buckets = 8};
using Step = PageLookup::Step;

// The node's end of one lookup, made up by hand: what stands in the key's two buckets, and what
// each slot's header says.
class PageLookupTest : public ::testing::Test {
 protected:
  void begin(const Location* location = nullptr, Version min_version = 0, uint64_t bytes = 0) {
    request_.key = key_;
    request_.min_version = min_version;
    request_.destination.bytes = bytes;
    lookup_.begin(request_, location, kGeometry, kIncarnation);
  }
  static PageHeader live_header(const PageKey& key, Version version, uint32_t bytes = 1024) {
    PageHeader header = make_page_header(key, version, kIncarnation, bytes, 0);
    header.live = live_token(key, version, kIncarnation);
    return header;
  }
  static PageHeader dead_header(const PageKey& key, Version version) {
    return make_page_header(key, version, kIncarnation, 1024, 0);
  }
  // `slots` stand in the first bucket, under this key's fingerprint.
  void index_shows(std::initializer_list<uint64_t> slots) {
    std::array<Bucket, 2> buckets{};
    size_t at = 0;
    for (const uint64_t slot : slots)
      buckets[at / 8].entries[at % 8] = make_entry(key_, slot), ++at;
    lookup_.index_landed(buckets, kGeometry);
  }
  void page_good(const PageHeader& header) {
    ASSERT_EQ(lookup_.header_landed(header), PageFinding::kGood);
    lookup_.payload_landed(header, true);
  }
  void expect_read(uint64_t slot) {
    ASSERT_EQ(lookup_.step(), Step::kReadPage);
    EXPECT_EQ(lookup_.slot(), slot);
  }
  void expect_end(Reason reason) {
    ASSERT_EQ(lookup_.step(), Step::kRecompute);
    EXPECT_EQ(lookup_.reason(), reason);
  }

  const PageKey key_ = make_page_key("lookup", "a");
  const PageKey other_ = make_page_key("lookup", "b");
  PageRequest request_;
  PageLookup lookup_;
};

TEST_F(PageLookupTest, CachedLocationIsReadAtOnce) {
  const Location location = {7, 30};
  begin(&location);
  expect_read(7);
  page_good(live_header(key_, 30));
  EXPECT_EQ(lookup_.step(), Step::kReady);
  EXPECT_EQ(lookup_.version(), 30u);
  EXPECT_FALSE(lookup_.used_index());
  EXPECT_EQ(lookup_.reads(), 1);
}

TEST_F(PageLookupTest, WithoutOneTheIndexIsRead) {
  begin();
  ASSERT_EQ(lookup_.step(), Step::kReadIndex);
  index_shows({9});
  expect_read(9);
  page_good(live_header(key_, 30));
  EXPECT_EQ(lookup_.step(), Step::kReady);
  EXPECT_TRUE(lookup_.used_index());
}

TEST_F(PageLookupTest, CachedLocationMustShowExactlyItsVersion) {
  const Location location = {7, 30};
  begin(&location);
  EXPECT_EQ(lookup_.header_landed(live_header(key_, 31)), PageFinding::kOtherVersion);
  EXPECT_EQ(lookup_.step(), Step::kReadIndex);
}

TEST_F(PageLookupTest, EveryBadFindingAtACachedLocationLeadsToTheIndex) {
  const Location location = {7, 30};
  PageHeader torn = live_header(key_, 30);
  torn.payload_crc ^= 1;
  for (const PageHeader& header :
       {dead_header(key_, 30), live_header(other_, 30), live_header(key_, 29), torn}) {
    begin(&location);
    EXPECT_NE(lookup_.header_landed(header), PageFinding::kGood);
    EXPECT_EQ(lookup_.step(), Step::kReadIndex);
    index_shows({8});
    expect_read(8);
  }
  begin(&location);
  ASSERT_EQ(lookup_.header_landed(live_header(key_, 30)), PageFinding::kGood);
  lookup_.payload_landed(live_header(key_, 30), false);
  EXPECT_EQ(lookup_.step(), Step::kReadIndex);
}

TEST_F(PageLookupTest, LocationThatCannotBeRightIsNotRead) {
  const Location beyond = {kGeometry.slots, 30};
  begin(&beyond);
  EXPECT_EQ(lookup_.step(), Step::kReadIndex);
  const Location too_old = {7, 29};
  begin(&too_old, 30);
  EXPECT_EQ(lookup_.step(), Step::kReadIndex);
}

TEST_F(PageLookupTest, EmptyTwiceIsAMissAndOnceIsNot) {
  begin();
  index_shows({});
  ASSERT_EQ(lookup_.step(), Step::kReadIndex);
  index_shows({});
  expect_end(Reason::kMiss);
}

TEST_F(PageLookupTest, EmptyOnceAndThenThereIsFound) {
  begin();
  index_shows({});  // it was moving between its two buckets
  index_shows({4});
  expect_read(4);
  page_good(live_header(key_, 5));
  EXPECT_EQ(lookup_.step(), Step::kReady);
}

TEST_F(PageLookupTest, MissAfterABadCachedLocationTakesTwoLooksToo) {
  const Location location = {7, 30};
  begin(&location);
  ASSERT_EQ(lookup_.header_landed(dead_header(key_, 30)), PageFinding::kNotLive);
  index_shows({});
  ASSERT_EQ(lookup_.step(), Step::kReadIndex);
  index_shows({});
  expect_end(Reason::kMiss);
}

TEST_F(PageLookupTest, CollidingFingerprintsAreTriedInTurn) {
  begin();
  index_shows({1, 2, 3});
  expect_read(1);
  EXPECT_EQ(lookup_.header_landed(live_header(other_, 5)), PageFinding::kOtherPage);
  expect_read(2);
  EXPECT_EQ(lookup_.header_landed(live_header(other_, 6)), PageFinding::kOtherPage);
  expect_read(3);
  page_good(live_header(key_, 7));
  EXPECT_EQ(lookup_.step(), Step::kReady);
  EXPECT_EQ(lookup_.slot(), 3u);
  EXPECT_EQ(lookup_.reads(), 3);
}

TEST_F(PageLookupTest, OnlyCollisionsTwiceAreAMiss) {
  begin();
  for (int look = 0; look < 2; ++look) {
    ASSERT_EQ(lookup_.step(), Step::kReadIndex);
    index_shows({1, 2});
    ASSERT_EQ(lookup_.header_landed(live_header(other_, 5)), PageFinding::kOtherPage);
    ASSERT_EQ(lookup_.header_landed(live_header(other_, 6)), PageFinding::kOtherPage);
  }
  expect_end(Reason::kMiss);
}

TEST_F(PageLookupTest, EntriesOutOfRangeAreNoCandidates) {
  begin();
  index_shows({kGeometry.slots, kGeometry.slots + 1000});
  ASSERT_EQ(lookup_.step(), Step::kReadIndex);
  index_shows({kGeometry.slots});
  expect_end(Reason::kMiss);
}

TEST_F(PageLookupTest, SameEntryBadTwiceInARowIsCorrupt) {
  PageHeader garbage;
  garbage.live = 1;
  for (const PageHeader& header : {garbage, dead_header(key_, 5)}) {
    begin();
    index_shows({3});
    ASSERT_NE(lookup_.header_landed(header), PageFinding::kGood);
    ASSERT_EQ(lookup_.step(), Step::kReadIndex);
    index_shows({3});
    ASSERT_NE(lookup_.header_landed(header), PageFinding::kGood);
    expect_end(Reason::kCorrupt);
  }
}

TEST_F(PageLookupTest, WrongPayloadTwiceIsCorrupt) {
  begin();
  for (int look = 0; look < 2; ++look) {
    index_shows({3});
    ASSERT_EQ(lookup_.header_landed(live_header(key_, 5)), PageFinding::kGood);
    lookup_.payload_landed(live_header(key_, 5), false);
  }
  expect_end(Reason::kCorrupt);
}

TEST_F(PageLookupTest, AnotherEntryAfterABadOneIsReplacementAndNotCorruption) {
  begin();
  index_shows({3});
  ASSERT_EQ(lookup_.header_landed(dead_header(key_, 5)), PageFinding::kNotLive);
  index_shows({4});
  expect_read(4);
  page_good(live_header(key_, 6));
  EXPECT_EQ(lookup_.version(), 6u);
}

TEST_F(PageLookupTest, BadThenGoneNeedsOneMoreLookForAMiss) {
  begin();
  index_shows({3});
  ASSERT_EQ(lookup_.header_landed(dead_header(key_, 5)), PageFinding::kNotLive);
  index_shows({});
  ASSERT_EQ(lookup_.step(), Step::kReadIndex);
  index_shows({});
  expect_end(Reason::kMiss);
}

TEST_F(PageLookupTest, OlderThanWantedTwiceIsStale) {
  begin(nullptr, 10);
  for (int look = 0; look < 2; ++look) {
    index_shows({3});
    ASSERT_EQ(lookup_.header_landed(live_header(key_, 9)), PageFinding::kOtherVersion);
  }
  expect_end(Reason::kStale);
}

TEST_F(PageLookupTest, PageOfAnotherRunOfTheNodeIsNoPage) {
  PageHeader header = make_page_header(key_, 5, kIncarnation + 1, 1024, 0);
  header.live = live_token(key_, 5, kIncarnation + 1);
  begin();
  index_shows({3});
  EXPECT_EQ(lookup_.header_landed(header), PageFinding::kCorrupt);
}

TEST_F(PageLookupTest, OtherLengthIsAMissAtOnce) {
  begin(nullptr, 0, 512);
  index_shows({3});
  EXPECT_EQ(lookup_.header_landed(live_header(key_, 5, 1024)), PageFinding::kOtherLength);
  expect_end(Reason::kMiss);
}

TEST_F(PageLookupTest, OtherLengthAtACachedLocationAsksTheIndexFirst) {
  const Location location = {7, 30};
  begin(&location, 0, 512);
  EXPECT_EQ(lookup_.header_landed(live_header(key_, 30, 1024)), PageFinding::kOtherLength);
  EXPECT_EQ(lookup_.step(), Step::kReadIndex);
}

TEST_F(PageLookupTest, DestinationLongerThanAnyPageIsAMissWithoutALook) {
  const Location location = {7, 30};
  begin(&location, 0, kGeometry.page_bytes + 1);
  expect_end(Reason::kMiss);
  EXPECT_FALSE(lookup_.used_index());
}

TEST_F(PageLookupTest, PageThatChangesAtEveryLookIsStaleInTheEnd) {
  begin();
  int looks = 0;
  while (lookup_.step() == Step::kReadIndex) {
    ASSERT_LT(++looks, 100);
    index_shows({static_cast<uint64_t>(looks % 2)});
    ASSERT_EQ(lookup_.header_landed(dead_header(key_, 5)), PageFinding::kNotLive);
  }
  expect_end(Reason::kStale);
  EXPECT_EQ(looks, 16);
}

}  // namespace
}  // namespace farpage
