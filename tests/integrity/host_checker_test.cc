#include "integrity/host_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "integrity/crc32c.h"

namespace farpage {
namespace {

using Outcome = CheckEnd::Outcome;

constexpr MemoryPlace kGpu = {MemoryKind::kCuda, 0};

std::unique_ptr<Checker> make_checker(size_t most) {
  return host_checkers().make({}, most).value();
}

// Of one check, by a checker of its own.
Outcome outcome_of(const void* data, size_t bytes, uint32_t crc) {
  const auto checker = make_checker(1);
  const PayloadCheck check = {static_cast<const std::byte*>(data), bytes, crc, 7};
  CheckEnd end;
  EXPECT_EQ(checker->begin({&check, 1}), 1u);
  EXPECT_EQ(checker->poll({&end, 1}), 1u);
  EXPECT_EQ(end.tag, 7u);
  return end.outcome;
}

// RFC 3720, B.4.
TEST(HostChecker, AgreesWithTheStandard) {
  std::array<unsigned char, 32> bytes{};
  EXPECT_EQ(outcome_of(bytes.data(), bytes.size(), 0x8A9136AAu), Outcome::kGood);
  bytes.fill(0xFF);
  EXPECT_EQ(outcome_of(bytes.data(), bytes.size(), 0x62A8AB43u), Outcome::kGood);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(outcome_of(bytes.data(), bytes.size(), 0x46DD794Eu), Outcome::kGood);
  EXPECT_EQ(outcome_of("123456789", 9, 0xE3069283u), Outcome::kGood);
  EXPECT_EQ(outcome_of("123456789", 9, 0xE3069282u), Outcome::kBad);
  EXPECT_EQ(outcome_of(nullptr, 0, 0), Outcome::kGood);
}

TEST(HostChecker, FindsAnyBitThatIsAnother) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(4096 + 13);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const uint32_t crc = crc32c(0, bytes.data(), bytes.size());
  ASSERT_EQ(outcome_of(bytes.data(), bytes.size(), crc), Outcome::kGood);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 31) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    ASSERT_EQ(outcome_of(bytes.data(), bytes.size(), crc), Outcome::kBad) << bit;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

// Begins and polls in pieces, so that what it keeps goes around its end many times.
TEST(HostChecker, EndsEachCheckOnceAndInOrderAndTakesNoMoreThanItHasRoomFor) {
  constexpr size_t kRoom = 5;
  const auto checker = make_checker(kRoom);
  std::mt19937_64 random(2);
  uint32_t begun = 0;
  uint32_t ended = 0;
  const uint32_t good = crc32c(0, "page", 4);
  while (ended < 1000) {
    std::vector<PayloadCheck> checks(random() % 8);
    for (uint32_t i = 0; i < checks.size(); ++i) {
      const uint32_t tag = begun + i;
      const uint32_t crc = tag % 3 == 0 ? ~good : good;
      checks[i] = {reinterpret_cast<const std::byte*>("page"), 4, crc, tag};
    }
    const size_t taken = checker->begin(checks);
    ASSERT_EQ(taken, std::min<size_t>(checks.size(), kRoom - (begun - ended)));
    begun += static_cast<uint32_t>(taken);
    std::vector<CheckEnd> ends(random() % 4);
    const size_t polled = checker->poll(ends);
    ASSERT_EQ(polled, std::min<size_t>(ends.size(), begun - ended));
    for (size_t i = 0; i < polled; ++i, ++ended) {
      ASSERT_EQ(ends[i].tag, ended);
      ASSERT_EQ(ends[i].outcome, ended % 3 == 0 ? Outcome::kBad : Outcome::kGood);
    }
  }
}

TEST(HostChecker, LooksAtTheBytesWhenItIsPolled) {
  const auto checker = make_checker(1);
  std::array<std::byte, 64> bytes{};
  const PayloadCheck check = {bytes.data(), bytes.size(), crc32c(0, bytes.data(), 64), 0};
  ASSERT_EQ(checker->begin({&check, 1}), 1u);
  bytes[5] = std::byte{1};
  CheckEnd end;
  ASSERT_EQ(checker->poll({&end, 1}), 1u);
  EXPECT_EQ(end.outcome, Outcome::kBad);
}

TEST(HostChecker, RefusesMemoryThatItMayNotTouchAndSaysWhatToDo) {
  const auto refused = host_checkers().make(kGpu, 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cuda:0"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("copy"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace farpage
