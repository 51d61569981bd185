#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace farpage::prefetch {

// A classifier is told of things by numbers that stand for what is true of them: of a kind, and
// three values of it.
inline constexpr uint32_t kMostOfFeature = 63;  // of a value

constexpr uint32_t feature(uint32_t kind, uint32_t one, uint32_t two = 0, uint32_t three = 0) {
  constexpr uint32_t kValues = kMostOfFeature + 1;
  const uint32_t first = kind * kValues + std::min(one, kMostOfFeature);
  const uint32_t second = first * kValues + std::min(two, kMostOfFeature);
  return second * kValues + std::min(three, kMostOfFeature);
}

// Counts and lengths by their order of magnitude.
constexpr uint32_t magnitude(uint64_t value) {
  return static_cast<uint32_t>(std::bit_width(value));
}

// In so many parts of one; what is no number is 0.
inline uint32_t parts(float value, float parts_of_one) {
  return value > 0 ? static_cast<uint32_t>(std::min(value * parts_of_one, 15.0F)) : 0;
}

inline uint32_t mass_magnitude(float mass) {
  if (!(mass > 0)) return 0;
  const int log2 = static_cast<int>(std::bit_cast<uint32_t>(mass) >> 23U) - 127;
  return static_cast<uint32_t>(std::clamp(log2 + 20, 1, 20));
}

}  // namespace farpage::prefetch
