#pragma once

#include <array>
#include <cstdint>

#include "pagetable/slot_order.h"

namespace farpage {

// Where slots stand in a key's order. Each step of the order has an inverse, so that a slot's
// position is known without the slots before it.
class SlotPositions {
 public:
  explicit SlotPositions(const SlotOrder& order) : sums_(order.sums_) {
    for (size_t round = 0; round < SlotOrder::kRounds; ++round) {
      inverses_[round] = inverse(order.factors_[round]);
    }
  }

  uint32_t of(uint32_t slot) const {
    uint32_t value = slot;
    for (size_t round = SlotOrder::kRounds; round-- > 0;) {
      value ^= value >> SlotOrder::kShift;
      value = ((value - sums_[round]) * inverses_[round]) & SlotOrder::kMask;
    }
    return value;
  }

 private:
  // Modulo 2¹⁰, by Newton: an odd number is its own inverse modulo 8, and each step doubles the
  // bits that are right.
  static constexpr uint32_t inverse(uint32_t odd) {
    uint32_t value = odd;
    value *= 2 - odd * value;
    return value * (2 - odd * value);
  }

  std::array<uint32_t, SlotOrder::kRounds> sums_;
  std::array<uint32_t, SlotOrder::kRounds> inverses_;
};

}  // namespace farpage
