#pragma once

#include <cstdint>

namespace farpage {

// SplitMix64 (Steele, Lea, Flood 2014): the same sequence on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15); }

  // Uniform in [0, range); `range` is not 0.
  uint64_t below(uint64_t range) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(next()) * range >> 64);
  }

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  static constexpr uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace farpage
