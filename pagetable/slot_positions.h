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

  // Of eight slots at once, in the lanes of a vector register: it takes about as long as one.
  static constexpr size_t kLanes = 8;
  using Lanes = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t))));

  uint32_t of(uint32_t slot) const { return back(slot); }
  Lanes of(Lanes slots) const { return back(slots); }

 private:
  // Arithmetic modulo 2¹⁶ is as good as modulo 2³² for what is then taken modulo 2¹⁰.
  template <typename Value>
  Value back(Value value) const {
    for (size_t round = SlotOrder::kRounds; round-- > 0;) {
      value ^= value >> SlotOrder::kShift;
      value = ((value - static_cast<uint16_t>(sums_[round])) *
               static_cast<uint16_t>(inverses_[round])) &
              static_cast<uint16_t>(SlotOrder::kMask);
    }
    return value;
  }

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
