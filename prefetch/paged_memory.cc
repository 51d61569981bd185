#include "prefetch/paged_memory.h"

namespace farpage::prefetch {

bool PagedMemory::access(const Access& access) {
  policy_.on_access(access);
  if (is_resident_[access.page] != 0) return true;
  if (budget_pages_ == 0) return false;
  if (resident_pages_ == budget_pages_) {
    const PageNumber victim = policy_.victim(access.step);
    is_resident_.at(victim) = 0;
    policy_.on_evict(victim, access.step);
    ++evictions_;
    --resident_pages_;
  }
  is_resident_.at(access.page) = 1;
  policy_.on_insert(access.page, access.step);
  ++resident_pages_;
  return false;
}

}  // namespace farpage::prefetch
