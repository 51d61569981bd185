#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/units.h"
#include "integrity/page_header.h"

namespace farpage {

// Where a slot's header and payload lie. The numbers travel in a node's hello.
enum class SlotLayout : uint8_t {
  kTogether = 0,  // the payload right behind its header: one read brings both
  kApart = 1,     // headers in one region, payloads in another: two reads
};

// How a node's pool and index are laid out. The same for the node and for its clients, who compute
// every offset from it; it comes with the node's hello and is validated before use.
struct Geometry {
  uint64_t page_bytes = 0;  // the longest payload
  uint64_t slots = 0;
  uint64_t buckets = 0;
  SlotLayout layout = SlotLayout::kTogether;

  bool is_apart() const { return layout == SlotLayout::kApart; }
  // Of header and payload, one behind the other.
  uint64_t slot_bytes() const { return sizeof(PageHeader) + round_up(page_bytes, 64); }
  // From one header to the next.
  uint64_t header_stride() const { return is_apart() ? sizeof(PageHeader) : slot_bytes(); }
  // In the region of the headers, which is that of the payloads where they lie together.
  uint64_t header_offset(uint64_t slot) const { return slot * header_stride(); }
  // In the region of the payloads.
  uint64_t payload_offset(uint64_t slot) const {
    return is_apart() ? slot * (slot_bytes() - sizeof(PageHeader))
                      : slot * slot_bytes() + sizeof(PageHeader);
  }
  // Of the headers' own region; 0: they have none.
  uint64_t headers_bytes() const { return is_apart() ? slots * sizeof(PageHeader) : 0; }
  // Of the region of the payloads.
  uint64_t payloads_bytes() const { return pool_bytes() - headers_bytes(); }
  // Of all regions of the pool.
  uint64_t pool_bytes() const { return slots * slot_bytes(); }
  uint64_t index_bytes() const { return buckets * 64; }

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

inline constexpr uint64_t kMaxPageBytes = 64 * kMiB;
inline constexpr uint64_t kMaxSlots = UINT32_MAX - 1;

// As many slots as fit, with an index that is three quarters full when all of them hold pages.
// Headers count, wherever they lie.
Result<Geometry> make_geometry(uint64_t page_bytes, uint64_t pool_bytes,
                               SlotLayout layout = SlotLayout::kTogether);

Result<void> validate(const Geometry& geometry);

}  // namespace farpage
