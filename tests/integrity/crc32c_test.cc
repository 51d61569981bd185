#include "integrity/crc32c.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

namespace farpage {
namespace {

// The portable twin: bit by bit, as RFC 3720 defines it.
uint32_t bitwise_crc32c(uint32_t crc, const unsigned char* data, size_t bytes) {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  uint32_t state = ~crc;
  for (size_t i = 0; i < bytes; ++i) {
    state ^= data[i];
    for (int bit = 0; bit < 8; ++bit) {
      state = state >> 1 ^ ((state & 1) != 0 ? kReversedPolynomial : 0);
    }
  }
  return ~state;
}

std::vector<unsigned char> random_bytes(std::mt19937_64& random, size_t count) {
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

// RFC 3720, B.4.
TEST(Crc32c, AgreesWithTheStandard) {
  std::array<unsigned char, 32> bytes{};
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x8A9136AAu);
  bytes.fill(0xFF);
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x62A8AB43u);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x46DD794Eu);
  std::iota(bytes.rbegin(), bytes.rend(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x113FDB5Cu);
  constexpr std::array<unsigned char, 48> kReadCommand = {
      0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0};
  EXPECT_EQ(crc32c(0, kReadCommand.data(), kReadCommand.size()), 0xD9963A56u);
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c(0, nullptr, 0), 0u);
}

TEST(Crc32c, AgreesWithThePortableTwinAtEveryLengthAndAlignment) {
  constexpr size_t kMaxLength = 300;
  constexpr size_t kAlignments = 64;
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<unsigned char> buffer(kMaxLength + 2 * kAlignments);
  const size_t to_alignment = -reinterpret_cast<uintptr_t>(buffer.data()) % kAlignments;
  unsigned char* const aligned = buffer.data() + to_alignment;
  for (size_t length = 0; length <= kMaxLength; ++length) {
    for (size_t i = 0; i < kMaxLength + kAlignments; ++i)
      aligned[i] = static_cast<unsigned char>(random());
    const auto start = static_cast<uint32_t>(random());
    for (size_t alignment = 0; alignment < kAlignments; ++alignment) {
      const unsigned char* const data = aligned + alignment;
      ASSERT_EQ(crc32c(start, data, length), bitwise_crc32c(start, data, length))
          << "length " << length << ", alignment " << alignment;
    }
  }
}

RC_GTEST_PROP(Crc32c, GoesOnWhereItStopped, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  const std::vector<unsigned char> bytes =
      random_bytes(random, *rc::gen::inRange<size_t>(0, 20000));
  const auto cut = *rc::gen::inRange<size_t>(0, bytes.size() + 1);
  const uint32_t first = crc32c(0, bytes.data(), cut);
  const uint32_t both = crc32c(first, bytes.data() + cut, bytes.size() - cut);
  RC_ASSERT(both == crc32c(0, bytes.data(), bytes.size()));
  RC_ASSERT(both == bitwise_crc32c(0, bytes.data(), bytes.size()));
}

RC_GTEST_PROP(Crc32c, TheCopyIsWholeAndCheckedWhereItLies, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  const std::vector<unsigned char> source =
      random_bytes(random, *rc::gen::inRange<size_t>(0, 20000));
  std::vector<unsigned char> destination(source.size() + 1, 0xA5);
  const auto cut = *rc::gen::inRange<size_t>(0, source.size() + 1);
  const uint32_t first = copy_with_crc32c(0, destination.data(), source.data(), cut);
  const uint32_t both =
      copy_with_crc32c(first, destination.data() + cut, source.data() + cut, source.size() - cut);
  RC_ASSERT(both == bitwise_crc32c(0, source.data(), source.size()));
  RC_ASSERT(std::equal(source.begin(), source.end(), destination.begin()));
  RC_ASSERT(destination.back() == 0xA5);
}

RC_GTEST_PROP(Crc32c, SeesEverySingleFlippedBit, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  std::vector<unsigned char> bytes = random_bytes(random, *rc::gen::inRange<size_t>(1, 5000));
  const uint32_t before = crc32c(0, bytes.data(), bytes.size());
  bytes[random() % bytes.size()] ^= static_cast<unsigned char>(1u << random() % 8);
  RC_ASSERT(crc32c(0, bytes.data(), bytes.size()) != before);
}

}  // namespace
}  // namespace farpage
