#pragma once

#include <array>
#include <cstdint>

namespace farpage {

// The 32 bits of an immediate name one transfer: which counter (8 bits) and its generation (24
// bits). A counter's generation grows by one with each transfer that uses it, so that a late
// arrival of an old transfer advances nothing.
inline constexpr uint32_t kTransferCounterBits = 8;
inline constexpr uint32_t kTransferCounters = 1u << kTransferCounterBits;
inline constexpr uint32_t kTransferGenerations = 1u << (32 - kTransferCounterBits);

constexpr uint32_t make_immediate(uint32_t counter, uint32_t generation) {
  return generation << kTransferCounterBits | counter;
}

// A transfer of several groups, each with an immediate of its own: one generation of so many
// counters in a row, from the first group's on, round the end.
constexpr uint32_t group_immediate(uint32_t first, uint32_t group) {
  return make_immediate((first + group) % kTransferCounters, first >> kTransferCounterBits);
}

// The receiving end of one channel's immediates (protocol rule 16). Arrivals count whether or not
// they have been asked for yet. One thread at a time.
class TransferCounters {
 public:
  void arrive(uint32_t immediate) {
    Entry& entry = entries_[immediate % kTransferCounters];
    const uint32_t generation = immediate >> kTransferCounterBits;
    // Serial-number arithmetic (RFC 1982): half of the generations lie behind, half ahead.
    const uint32_t ahead = (generation - entry.generation) % kTransferGenerations;
    if (ahead == 0) {
      ++entry.arrived;
    } else if (ahead < kTransferGenerations / 2) {
      entry = {generation, 1};
    }
  }

  uint32_t arrived(uint32_t immediate) const {
    const Entry& entry = entries_[immediate % kTransferCounters];
    return entry.generation == immediate >> kTransferCounterBits ? entry.arrived : 0;
  }

 private:
  struct Entry {
    uint32_t generation = 0;
    uint32_t arrived = 0;
  };
  std::array<Entry, kTransferCounters> entries_;
};

}  // namespace farpage
