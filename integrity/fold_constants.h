#pragma once

#include <array>
#include <cstdint>

namespace farpage {

// Folding as in Gopal, Ozturk, Guilford, Wolrich, Feghali, Dixon and Karakoyunlu, "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel white paper 323102, 2009.
// Bits are reflected throughout: the lowest bit of the first byte is the highest coefficient.

inline constexpr uint32_t kReflectedCastagnoli = 0x82F63B78;  // x^32 is left out

// x^exponent mod P; bit i is the coefficient of x^(31 - i).
constexpr uint32_t power_of_x(unsigned exponent) {
  uint32_t power = uint32_t{1} << 31;
  for (; exponent > 0; --exponent) {
    power = power >> 1 ^ ((power & 1) != 0 ? kReflectedCastagnoli : 0);
  }
  return power;
}

// Factors of the two halves of 16 bytes that make their sum stand for the 16 bytes in front of
// `distance_bytes` more. A carry-less product of two reflected words of 64 bits has 127 bits, and
// as a word of 128 it is once more multiplied by x: hence the "- 1".
constexpr std::array<uint64_t, 2> fold_over(unsigned distance_bytes) {
  const unsigned bits = distance_bytes * 8;
  return {uint64_t{power_of_x(bits + 64 - 1)} << 32, uint64_t{power_of_x(bits - 1)} << 32};
}

}  // namespace farpage
