#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "prefetch/access.h"

namespace farpage::prefetch {

// Pages that the engine called milestones: 65,536 at most. On one thread.
class MarkedPages {
 public:
  MarkedPages() : pages_(kPlaces, kNone) {}

  // One that takes another's place drives it out.
  void add(PageNumber page) { pages_[page % kPlaces] = page; }
  void remove(PageNumber page) {
    if (contains(page)) pages_[page % kPlaces] = kNone;
  }
  bool contains(PageNumber page) const { return page != kNone && pages_[page % kPlaces] == page; }

 private:
  static constexpr size_t kPlaces = 1 << 16;
  static constexpr PageNumber kNone = UINT32_MAX;

  std::vector<PageNumber> pages_;
};

}  // namespace farpage::prefetch
