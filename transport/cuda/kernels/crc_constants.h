#pragma once

#include <array>
#include <cstdint>

#include "integrity/fold_constants.h"

namespace farpage::cuda {

// The product of two polynomials mod P, both reflected as in integrity/fold_constants.h.
constexpr uint32_t multiply(uint32_t left, uint32_t right) {
  uint32_t product = 0;
  for (int bit = 0; bit < 32; ++bit) {
    product ^= (left & uint32_t{1} << (31 - bit)) != 0 ? right : 0;
    right = right >> 1 ^ ((right & 1) != 0 ? kReflectedCastagnoli : 0);
  }
  return product;
}

// x^exponent mod P by squaring. The order of x is 2^31 - 1, so this exponent of any sign is enough.
constexpr uint32_t power_of_x_by_squaring(int64_t exponent) {
  constexpr int64_t kOrder = (int64_t{1} << 31) - 1;
  exponent = (exponent % kOrder + kOrder) % kOrder;
  uint32_t power = power_of_x(0);
  for (uint32_t square = power_of_x(1); exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

inline constexpr int kLanes = 32;
inline constexpr int kWordBytes = 4;
inline constexpr int kMostWarps = 4;  // that share one page
inline constexpr int kDigitBits = 5;  // a lane's number: what one shuffle can look up
inline constexpr int kDigits = 7;     // of a word

// Entry [digit][lane] is (lane << 5 * digit) * x^bits mod P.
using ShuffleTable = std::array<std::array<uint32_t, kLanes>, kDigits>;

constexpr ShuffleTable shuffle_table(int64_t bits) {
  ShuffleTable table{};
  const uint32_t factor = power_of_x_by_squaring(bits);
  for (int digit = 0; digit < kDigits; ++digit) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      table[digit][lane] = multiply(lane << kDigitBits * digit, factor);
    }
  }
  return table;
}

// What the warps of a page need: each row of a page has 32 words a warp, and each thread has one
// column of it.
struct CrcConstants {
  // [0] where two warps share a page, [1] where four do: to the next row.
  std::array<ShuffleTable, 2> next_row{};
  // [n]: x^(32 * (n + 1)): of a word that has n words behind it in its row.
  std::array<uint32_t, kLanes * kMostWarps> column{};
  // [n]: x^(-8 * n): takes n bytes of zeros off the end.
  std::array<uint32_t, kWordBytes> shorten{};
};

constexpr CrcConstants make_crc_constants() {
  CrcConstants made;
  for (int i = 0; i < 2; ++i) made.next_row[i] = shuffle_table(int64_t{32} * kLanes * (2 << i));
  uint32_t power = power_of_x(32);
  for (uint32_t& factor : made.column) {
    factor = power;
    power = multiply(power, power_of_x(32));
  }
  for (int bytes = 0; bytes < kWordBytes; ++bytes) {
    made.shorten[bytes] = power_of_x_by_squaring(-8 * bytes);
  }
  return made;
}

}  // namespace farpage::cuda
