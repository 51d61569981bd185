#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace farpage {

// The slots that one client's lanes have read, written one-sided at the end of its staging, so that
// eviction knows what is in use without hearing of any fetch: docs/formats/touch-log.md. A ring of
// blocks; the count of all slots ever written comes last. Only a hint: what is overwritten before
// the node looks is forgotten, and the node checks every number.
inline constexpr uint32_t kTouchBlockSlots = 256;
inline constexpr uint32_t kTouchBlocks = 16;
inline constexpr uint32_t kTouchRingSlots = kTouchBlockSlots * kTouchBlocks;

struct TouchLog {
  uint64_t written;  // slots, since the hello; always whole blocks
  uint32_t reserved[14];
  uint32_t slots[kTouchRingSlots];
};

// Of each page in a staging, and of what follows the puts' part.
inline constexpr uint64_t kStagingAlignment = 64;
// Its bytes at the end of a staging.
inline constexpr uint64_t kTouchLogBytes = round_up(sizeof(TouchLog), 4 * kKiB);

}  // namespace farpage
