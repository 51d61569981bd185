#include "replay/page_content.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "replay/put_history.h"

namespace farpage {
namespace {

using Page = std::vector<std::byte>;

constexpr PageKey kKey = {0x1234'5678'9ABC'DEF0, 0x0FED'CBA9'8765'4321};
constexpr PageKey kOtherKey = {0x1234'5678'9ABC'DEF0, 0x0FED'CBA9'8765'4322};

Page make_page(size_t bytes, const PageKey& key, uint64_t put_number) {
  Page page(bytes);
  fill_page(page, key, put_number);
  return page;
}

// Of random bytes, 1 in 256 is equal by chance.
void expect_mostly_wrong(uint64_t wrong, size_t bytes) {
  EXPECT_GT(wrong, bytes * 98 / 100);
  EXPECT_LE(wrong, bytes);
}

TEST(PageContent, TheFirstBytesAreThePutsNumber) {
  const Page page = make_page(64, kKey, 0x0102030405060708);
  EXPECT_EQ(page[0], std::byte{8});
  EXPECT_EQ(page[7], std::byte{1});
  EXPECT_EQ(page_put_number(page), 0x0102030405060708u);
}

TEST(PageContent, ARightPageHasNoWrongByte) {
  for (const size_t bytes : {64, 65, 511, 512, 513, 4096, 65536, 65541}) {
    EXPECT_EQ(count_wrong_bytes(make_page(bytes, kKey, 7), kKey, {7, 7}), 0u) << bytes;
    EXPECT_EQ(count_wrong_bytes(make_page(bytes, kKey, 7), kKey, {5, 9}), 0u) << bytes;
  }
}

TEST(PageContent, EveryFlippedByteIsCounted) {
  Page page = make_page(1030, kKey, 7);
  for (size_t i = 0; i < page.size(); ++i) {
    page[i] ^= std::byte{0x10};
    EXPECT_EQ(count_wrong_bytes(page, kKey, {7, 7}), 1u) << i;
    page[i] ^= std::byte{0x10};
  }
  page[3] ^= std::byte{1};
  page[600] ^= std::byte{1};
  page[1029] ^= std::byte{1};
  EXPECT_EQ(count_wrong_bytes(page, kKey, {7, 7}), 3u);
}

TEST(PageContent, AnotherPageIsWrongAlmostEverywhere) {
  const Page page = make_page(4096, kOtherKey, 7);
  const uint64_t wrong = count_wrong_bytes(page, kKey, {7, 7});
  EXPECT_GE(wrong, 4096u * 98 / 100 - 8) << "the put's number is the same";
}

TEST(PageContent, AnOlderPutIsWrongAlmostEverywhere) {
  const Page page = make_page(4096, kKey, 6);
  const uint64_t wrong = count_wrong_bytes(page, kKey, {7, 8});
  EXPECT_GE(wrong, 4096u * 98 / 100 - 8);
  expect_mostly_wrong(count_wrong_bytes(Page(4096), kKey, {7, 8}), 4096 - 8);
}

TEST(PageContent, ATornPageIsFound) {
  Page page = make_page(4096, kKey, 6);
  const Page newer = make_page(4096, kKey, 7);
  std::copy_n(newer.begin(), 2048, page.begin());
  expect_mostly_wrong(count_wrong_bytes(page, kKey, {6, 7}), 2048);
}

TEST(PageContent, AMovedPageIsFound) {
  Page page = make_page(8192, kKey, 7);
  std::copy(page.begin() + 512, page.end(), page.begin() + 8);
  EXPECT_GT(count_wrong_bytes(page, kKey, {7, 7}), 7000u);
}

TEST(PageContent, NothingIsAcceptableBeforeTheFirstPut) {
  const PutHistory history;
  EXPECT_GT(count_wrong_bytes(make_page(4096, kKey, 1), kKey, history.acceptable(5)), 4000u);
}

TEST(PutHistory, AcceptsTheLastAcknowledgedAndWhatWasSentAfterIt) {
  PutHistory history;
  EXPECT_EQ(history.send(5), 1u);
  EXPECT_TRUE(history.acceptable(5).contains(1)) << "it may have arrived";
  EXPECT_EQ(history.send(5), 2u);
  history.acknowledge(5, 2);
  EXPECT_FALSE(history.acceptable(5).contains(1));
  EXPECT_TRUE(history.acceptable(5).contains(2));
  EXPECT_EQ(history.send(5), 3u);
  EXPECT_TRUE(history.acceptable(5).contains(2));
  EXPECT_TRUE(history.acceptable(5).contains(3));
  EXPECT_FALSE(history.acceptable(5).contains(4));
  EXPECT_FALSE(history.acceptable(6).contains(1));
}

}  // namespace
}  // namespace farpage
