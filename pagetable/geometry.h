#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/units.h"
#include "integrity/page_header.h"

namespace farpage {

// How a node's pool and index are laid out. The same for the node and for its clients, who compute
// every offset from it; it comes with the node's hello and is validated before use.
struct Geometry {
  uint64_t page_bytes = 0;  // the longest payload
  uint64_t slots = 0;
  uint64_t buckets = 0;

  uint64_t slot_bytes() const { return sizeof(PageHeader) + round_up(page_bytes, 64); }
  uint64_t slot_offset(uint64_t slot) const { return slot * slot_bytes(); }
  uint64_t pool_bytes() const { return slots * slot_bytes(); }
  uint64_t index_bytes() const { return buckets * 64; }

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

inline constexpr uint64_t kMaxPageBytes = 64 * kMiB;
inline constexpr uint64_t kMaxSlots = UINT32_MAX - 1;

// As many slots as fit, with an index that is three quarters full when all of them hold pages.
Result<Geometry> make_geometry(uint64_t page_bytes, uint64_t pool_bytes);

Result<void> validate(const Geometry& geometry);

}  // namespace farpage
