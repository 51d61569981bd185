#include "tier/ahead/page_numbering.h"

#include <bit>

namespace farpage {

PageNumbering::PageNumbering(uint32_t most)
    : most_(most), slots_(std::bit_ceil(2 * size_t{most}), kNone) {
  keys_.reserve(most);
  by_use_.reserve(most);
}

size_t PageNumbering::slot_of(const PageKey& key) const {
  size_t slot = home(key);
  while (slots_[slot] != kNone && keys_[slots_[slot]] != key) slot = after(slot);
  return slot;
}

std::optional<PageNumbering::PageNumber> PageNumbering::find(const PageKey& key) const {
  const PageNumber page = slots_[slot_of(key)];
  return page == kNone ? std::nullopt : std::optional(page);
}

PageNumbering::PageNumber PageNumbering::add(const PageKey& key) {
  const auto page = static_cast<PageNumber>(keys_.size());
  slots_[slot_of(key)] = page;
  keys_.push_back(key);
  by_use_.push_back(page);
  return page;
}

void PageNumbering::rename(PageNumber page, const PageKey& key) {
  size_t gap = slot_of(keys_[page]);
  slots_[gap] = kNone;
  // Entries whose home was taken move up, so that no search ends at the gap.
  for (size_t slot = after(gap); slots_[slot] != kNone; slot = after(slot)) {
    const size_t wanted = home(keys_[slots_[slot]]);
    const size_t mask = slots_.size() - 1;
    if (((slot - wanted) & mask) < ((slot - gap) & mask)) continue;
    slots_[gap] = slots_[slot];
    slots_[slot] = kNone;
    gap = slot;
  }
  keys_[page] = key;
  slots_[slot_of(key)] = page;
}

}  // namespace farpage
