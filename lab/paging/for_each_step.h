#pragma once

#include <span>
#include <vector>

#include "lab/paging/access_trace.h"

namespace farpage::paging {

// Calls `use` with all accesses of each step of the trace.
template <typename Use>
Result<void> for_each_step(const AccessTrace& trace, Use use) {
  std::vector<prefetch::Access> step;
  auto read = for_each_access(trace, [&](const prefetch::Access& access) {
    if (!step.empty() && step.front().step != access.step) {
      use(std::span<const prefetch::Access>(step));
      step.clear();
    }
    step.push_back(access);
  });
  if (read && !step.empty()) use(std::span<const prefetch::Access>(step));
  return read;
}

}  // namespace farpage::paging
