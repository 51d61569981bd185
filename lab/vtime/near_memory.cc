#include "lab/vtime/near_memory.h"

#include <algorithm>

namespace farpage::vtime {

uint64_t NearMemory::room_ahead() const {
  const uint64_t half = (budget_pages_ + 1) / 2;
  const auto useful = static_cast<uint64_t>(useful_share_ * static_cast<double>(half));
  const uint64_t most = std::max(useful, (half + kLeastShare - 1) / kLeastShare);
  return most - std::min<uint64_t>(most, held_.size());
}

std::optional<NearMemory::PageNumber> NearMemory::insert(PageNumber page, uint64_t step) {
  if (held_.size() == 0 || held_.size() < budget_pages_) {
    return kept_.insert_within(budget_pages_ - held_.size(), page, step);
  }
  const PageNumber gone = held_.front();
  held_.remove(gone);
  count_waste();
  kept_.insert(page, step);
  return gone;
}

void NearMemory::use(PageNumber page, uint64_t step) {
  if (!held_.contains(page)) return;
  held_.remove(page);
  kept_.insert(page, step);
}

void NearMemory::hold(PageNumber page, uint64_t last_step) {
  held_.push_back(page);
  last_step_.at(page) = last_step;
}

}  // namespace farpage::vtime
