#include "sim/truth.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace farpage {
namespace {

class TruthTest : public testing::Test {
 protected:
  std::span<const std::byte> page(const PageKey& key, uint64_t number) {
    fill_page(bytes_, key, number);
    return bytes_;
  }
  std::optional<FindingKind> judge(const Truth::Bound& bound, Version version, uint64_t number) {
    const auto found = truth_.judge(key_, bound, version, page(key_, number));
    return found ? std::optional(found->kind) : std::nullopt;
  }

  Truth truth_;
  const PageKey key_ = {1, 2};
  const PageKey other_ = {3, 4};
  std::array<std::byte, 128> bytes_;
};

TEST_F(TruthTest, PageOfAnotherKeyIsWrong) {
  const uint64_t number = truth_.send_put(other_);
  const auto found = truth_.judge(key_, {}, 1, page(other_, number));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, FindingKind::kWrongBytes);
}

TEST_F(TruthTest, AnyFlippedBitIsAWrongByte) {
  const uint64_t number = truth_.send_put(key_);
  for (size_t bit = 0; bit < 8 * bytes_.size(); ++bit) {
    page(key_, number);
    bytes_[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const auto found = truth_.judge(key_, {}, 1, bytes_);
    ASSERT_TRUE(found) << bit;
    EXPECT_EQ(found->kind, FindingKind::kWrongBytes);
  }
}

TEST_F(TruthTest, OlderThanAcknowledgedGoesBack) {
  const uint64_t first = truth_.send_put(key_);
  EXPECT_FALSE(truth_.acknowledge_put(key_, first, 1));
  const Truth::Bound before = truth_.bound(key_);
  const uint64_t second = truth_.send_put(key_);
  EXPECT_FALSE(truth_.acknowledge_put(key_, second, 2));
  EXPECT_FALSE(judge(before, 1, first)) << "the fetch began before the second was acknowledged";
  EXPECT_EQ(judge(truth_.bound(key_), 1, first), FindingKind::kWentBack);
  EXPECT_FALSE(judge(truth_.bound(key_), 2, second));
}

// Even if a version says otherwise: what was told in which order is enough.
TEST_F(TruthTest, ReplacedBytesUnderANewVersionGoBack) {
  const uint64_t first = truth_.send_put(key_);
  EXPECT_FALSE(truth_.acknowledge_put(key_, first, 1));
  const uint64_t second = truth_.send_put(key_);
  EXPECT_FALSE(truth_.acknowledge_put(key_, second, 2));
  EXPECT_EQ(judge(truth_.bound(key_), 3, first), FindingKind::kWentBack);
}

TEST_F(TruthTest, PutsOneAfterTheOtherHaveVersionsInThatOrder) {
  const uint64_t first = truth_.send_put(key_);
  const uint64_t beside = truth_.send_put(key_);
  EXPECT_FALSE(truth_.acknowledge_put(key_, first, 5));
  EXPECT_FALSE(truth_.acknowledge_put(key_, beside, 4)) << "they overlap";
  const uint64_t after = truth_.send_put(key_);
  EXPECT_TRUE(truth_.acknowledge_put(key_, after, 5));
}

TEST_F(TruthTest, RemovedPageDoesNotComeBack) {
  const uint64_t number = truth_.send_put(key_);
  EXPECT_FALSE(truth_.acknowledge_put(key_, number, 1));
  const Truth::SentRemove remove = truth_.send_remove(key_);
  const Truth::Bound before = truth_.bound(key_);
  truth_.acknowledge_remove(key_, remove);
  EXPECT_FALSE(judge(before, 1, number));
  EXPECT_EQ(judge(truth_.bound(key_), 1, number), FindingKind::kWentBack);
  EXPECT_EQ(judge(truth_.bound(key_), 7, number), FindingKind::kWentBack);
}

TEST_F(TruthTest, OneVersionIsOneContent) {
  const uint64_t first = truth_.send_put(key_);
  const uint64_t second = truth_.send_put(key_);
  EXPECT_FALSE(judge({}, 1, first));
  EXPECT_EQ(judge({}, 1, second), FindingKind::kWentBack);
  EXPECT_EQ(judge({}, 2, first), FindingKind::kWentBack);
}

}  // namespace
}  // namespace farpage
