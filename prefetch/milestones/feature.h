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
  return mass > 0 ? static_cast<uint32_t>(std::clamp(std::log2(mass) + 20, 1.0F, 20.0F)) : 0;
}

}  // namespace farpage::prefetch
