#include "lab/analyse/measures/recency.h"

#include <algorithm>

namespace farpage::analyse {

using prefetch::PageNumber;

std::optional<uint64_t> Recency::rank(PageNumber page) const {
  const uint32_t place = places_[page];
  if (place == kNever) return std::nullopt;
  return pages_ - counted_before(place) - 1;
}

void Recency::use(PageNumber page) {
  if (used_.size() == tree_.size()) renumber();
  uint32_t& place = places_.at(page);
  if (place == kNever) {
    ++pages_;
  } else {
    count(place, -1);
  }
  place = static_cast<uint32_t>(used_.size());
  used_.push_back(page);
  count(place, 1);
}

// Leaves out the places of pages that were used again, and makes room for as many more.
void Recency::renumber() {
  size_t kept = 0;
  for (size_t place = 0; place < used_.size(); ++place) {
    const PageNumber page = used_[place];
    if (places_[page] != place) continue;
    places_.at(page) = static_cast<uint32_t>(kept);
    used_[kept++] = page;
  }
  used_.resize(kept);
  tree_.assign(std::max<size_t>(64, 2 * kept), 0);
  for (size_t place = 0; place < kept; ++place) count(place, 1);
}

void Recency::count(size_t place, int32_t by) {
  for (size_t i = place + 1; i <= tree_.size(); i += i & -i) tree_[i - 1] += by;
}

uint64_t Recency::counted_before(size_t place) const {
  int64_t sum = 0;
  for (size_t i = place; i > 0; i -= i & -i) sum += tree_[i - 1];
  return static_cast<uint64_t>(sum);
}

}  // namespace farpage::analyse
