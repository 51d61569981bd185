#pragma once

#include <cstdint>

namespace farpage {

// The tag of a lane's operation: its attempt, the step of that attempt that asked for it, and which
// of the step's operations it is. No two of a lane are the same within 2^32 steps, so that a
// completion that comes twice, or after its step, is known. Attempts from Lane::kPlaces on are the
// places of reads of the index.
struct OperationTag {
  uint32_t step = 0;
  uint8_t part = 0;  // one bit
  uint16_t attempt = 0;

  static constexpr OperationTag of(uint64_t tag) {
    return {static_cast<uint32_t>(tag >> 32), static_cast<uint8_t>(tag >> 16),
            static_cast<uint16_t>(tag)};
  }
  constexpr uint64_t value() const { return uint64_t{step} << 32 | uint64_t{part} << 16 | attempt; }
};

}  // namespace farpage
