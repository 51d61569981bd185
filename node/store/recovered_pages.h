#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "integrity/page_header.h"
#include "pagetable/geometry.h"

namespace farpage {

// Pages that a run of a node left in its pool and the next one found there: their headers prove
// them, each is in its slot, and the node serves none until it is taken. One thread.
class RecoveredPages {
 public:
  struct Page {
    uint32_t slot;
    Version version;
  };

  RecoveredPages() = default;

  // Of all slots, whose headers lie in the region that begins at `headers`. A page is proven by a
  // whole header whose live word is the one of its key, version and incarnation; of two of one key
  // only the newer is. `unproven` is told of every other slot.
  RecoveredPages(const Geometry& geometry, const std::byte* headers,
                 const std::function<void(uint32_t slot)>& unproven);

  size_t size() const { return pages_.size(); }

  // It is one no more. Nothing: there is none of this key and version.
  std::optional<uint32_t> take(const PageKey& key, Version version);
  // False: this slot has none of this key.
  bool drop(const PageKey& key, uint32_t slot);
  // Any of them; nothing when there are none.
  std::optional<Page> take_any();

 private:
  std::unordered_map<PageKey, Page> pages_;
};

}  // namespace farpage
