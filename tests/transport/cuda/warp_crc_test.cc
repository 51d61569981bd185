#include <gtest/gtest.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/transport/cuda/warp_emulation.h"

namespace farpage {
namespace {

// isa-l's own CRC-32C, past the library's.
uint32_t crc_of_isal(const std::byte* page, int bytes) {
  auto* at = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(page));
  return ~crc32_iscsi(at, bytes, 0xFFFFFFFFu);
}

class WarpCrc : public testing::Test {
 protected:
  static constexpr int kMemory = 256 * 1024;

  WarpCrc() : memory_(kMemory) {
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random_());
  }
  int draw(int most) { return static_cast<int>(random_() % static_cast<uint64_t>(most + 1)); }
  void expect_right(int offset, int bytes, int warps) {
    const std::byte* page = memory_.data() + offset;
    ASSERT_EQ(emulated_crc(page, bytes, warps), crc_of_isal(page, bytes))
        << bytes << " bytes at " << offset << ", " << warps << " warps";
  }

  std::mt19937_64 random_{24};
  std::vector<std::byte> memory_;
};

// Three rows of four warps, and the window's 64 rows of two: each length near every seam.
TEST_F(WarpCrc, is_right_for_every_short_length) {
  for (int bytes = 1; bytes <= 3 * 512 + 8; ++bytes) {
    expect_right(draw(64), bytes, 2);
    expect_right(draw(64), bytes, 4);
  }
}

TEST_F(WarpCrc, is_right_around_every_row_and_window) {
  for (const int warps : {2, 4}) {
    const int row_bytes = 128 * warps;
    for (const int rows : {15, 16, 17, 63, 64, 65, 79, 80, 81, 127, 128, 129, 192, 193}) {
      for (int around = -9; around <= 9; ++around) {
        expect_right(draw(64), rows * row_bytes + around, warps);
      }
    }
  }
}

TEST_F(WarpCrc, is_right_for_the_pages_of_engines) {
  for (const int bytes : {16, 4096, 16384, 65536, 81920, 131072, 229376}) {
    for (const int warps : {2, 4}) expect_right(0, bytes, warps);
  }
}

TEST_F(WarpCrc, is_right_for_random_pages) {
  for (int i = 0; i < 100'000; ++i) {
    const int most = i % 64 == 0 ? kMemory - 128 : i % 8 == 0 ? 16384 : 2048;
    const int bytes = 1 + draw(most);
    expect_right(draw(64), std::min(bytes, kMemory - 128), i % 8 == 0 ? 4 : 2);
    if (HasFatalFailure()) return;
  }
}

// Damage of one bit anywhere changes it: the sums of many rows lose none.
TEST_F(WarpCrc, sees_each_bit_of_a_page) {
  const int bytes = 66 * 256 + 3;
  const uint32_t right = emulated_crc(memory_.data(), bytes, 2);
  for (int bit = 0; bit < bytes * 8; bit += 61) {
    std::byte& byte = memory_[bit / 8];
    byte ^= std::byte{1} << bit % 8;
    ASSERT_NE(emulated_crc(memory_.data(), bytes, 2), right) << "bit " << bit;
    byte ^= std::byte{1} << bit % 8;
  }
}

}  // namespace
}  // namespace farpage
