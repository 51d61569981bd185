#include "bench/vtime/near_memory.h"

#include <algorithm>

namespace farpage::vtime {

uint64_t NearMemory::room_ahead() const {
  const uint64_t half = (budget_pages_ + 1) / 2;
  const auto useful = static_cast<uint64_t>(useful_share_ * static_cast<double>(half));
  const uint64_t most = std::max(useful, (half + kLeastShare - 1) / kLeastShare);
  return most - std::min<uint64_t>(most, held_.size());
}

std::optional<NearMemory::PageNumber> NearMemory::insert(PageNumber page, uint64_t step) {
  if (budget_pages_ == 0) return std::nullopt;
  std::optional<PageNumber> gone;
  if (is_full()) {
    gone = kept_pages_ > 0 ? policy_.victim(step) : held_.front();
    evict(*gone, step);
  }
  keep(page, step);
  return gone;
}

void NearMemory::use(PageNumber page, uint64_t step) {
  if (!held_.contains(page)) return;
  held_.remove(page);
  keep(page, step);
}

void NearMemory::evict(PageNumber page, uint64_t step) {
  if (held_.contains(page)) {
    held_.remove(page);
    return;
  }
  is_kept_.at(page) = 0;
  --kept_pages_;
  policy_.on_evict(page, step);
}

void NearMemory::hold(PageNumber page, uint64_t last_step) {
  held_.push_back(page);
  last_step_.at(page) = last_step;
}

void NearMemory::end_holds(uint64_t step) {
  while (held_.size() > 0 && last_step_[held_.front()] < step) {
    const PageNumber page = held_.front();
    held_.remove(page);
    keep(page, step);
    count(0);
  }
}

void NearMemory::keep(PageNumber page, uint64_t step) {
  is_kept_.at(page) = 1;
  ++kept_pages_;
  policy_.on_insert(page, step);
}

}  // namespace farpage::vtime
