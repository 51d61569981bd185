#include "prefetch/paged_memory.h"

namespace farpage::prefetch {

bool PagedMemory::access(const Access& access) {
  policy_.on_access(access);
  if (pages_.contains(access.page)) return true;
  if (pages_.insert_within(budget_pages_, access.page, access.step)) ++evictions_;
  return false;
}

}  // namespace farpage::prefetch
