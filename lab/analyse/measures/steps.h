#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/status.h"
#include "lab/analyse/measures/parts.h"
#include "lab/paging/access_trace.h"

namespace farpage::analyse {

// Steps behind the current one that questions may look at.
inline constexpr size_t kAheadSteps = 10;

// Of a request, or of a token: what a trace calls steps, with those of a token's layers in one.
struct Step {
  uint64_t index = 0;  // from 0, whatever the trace calls it
  size_t part = 0;     // of Parts
  std::vector<prefetch::Access> accesses = {};
  std::vector<prefetch::PageNumber> pages = {};  // of these, each once
};

// At the end of the trace there are fewer.
using Ahead = std::deque<Step>;

// Calls `use` with each step, in order, and what comes behind it.
Result<void> for_each_step(const paging::AccessTrace& trace, const Parts& parts,
                           const std::function<void(const Step&, const Ahead&)>& use);

}  // namespace farpage::analyse
