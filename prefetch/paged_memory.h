#pragma once

#include <cstdint>

#include "prefetch/policy.h"
#include "prefetch/resident_set.h"

namespace farpage::prefetch {

// Demand paging: what is not resident is brought in, and if the budget is used up, what the policy
// names goes. With a budget of 0 nothing is ever resident. The policy outlives it. On one thread.
class PagedMemory {
 public:
  PagedMemory(uint64_t budget_pages, Policy& policy)
      : budget_pages_(budget_pages), policy_(policy), pages_(policy) {}

  // Whether its page was resident.
  bool access(const Access& access);

  uint64_t evictions() const { return evictions_; }

 private:
  const uint64_t budget_pages_;
  Policy& policy_;
  ResidentSet pages_;
  uint64_t evictions_ = 0;
};

}  // namespace farpage::prefetch
