#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "integrity/page_key.h"
#include "pagetable/epoch.h"

namespace farpage {

// The order in which one key prefers the slots of an epoch's members: a permutation of
// 0 … kMaxMembers - 1, drawn by the key. Four rounds, each an odd factor, a sum and a shift: with
// three, how often two slots follow each other differs by 3%, with four by 0.5%.
class SlotOrder {
 public:
  // `salt` is the epoch's: another one draws another order.
  SlotOrder(const PageKey& key, uint64_t salt) {
    const uint64_t first = Random::mix(Random::mix(key.low ^ salt) ^ key.high);
    const uint64_t second = Random::mix(first + kSecondWord);
    for (size_t round = 0; round < kRounds; ++round) {
      const uint64_t word = (round < kRounds / 2 ? first : second) >> (round % 2 * 2 * kBits);
      factors_[round] = static_cast<uint32_t>(word & kMask) | 1;
      sums_[round] = static_cast<uint32_t>(word >> kBits & kMask);
    }
  }

  uint32_t slot_at(uint32_t position) const {
    uint32_t value = position;
    for (size_t round = 0; round < kRounds; ++round) {
      value = (value * factors_[round] + sums_[round]) & kMask;
      value ^= value >> kShift;
    }
    return value;
  }

 private:
  friend class SlotPositions;
  static constexpr uint32_t kBits = 10;
  static constexpr uint32_t kMask = (1u << kBits) - 1;
  static constexpr uint32_t kShift = kBits / 2;  // half of the bits: such a step undoes itself
  static constexpr size_t kRounds = 4;
  static constexpr uint64_t kSecondWord = 0x9E3779B97F4A7C15;
  static_assert(kMask + 1 == kMaxMembers);

  std::array<uint32_t, kRounds> factors_;
  std::array<uint32_t, kRounds> sums_;
};

}  // namespace farpage
