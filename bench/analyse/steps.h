#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/status.h"
#include "bench/paging/access_trace.h"

namespace farpage::analyse {

// Parts of consecutive steps that stand for sequences, as no trace tells of any.
inline constexpr uint64_t kParts = 50;
// Steps behind the current one that questions may look at.
inline constexpr size_t kAheadSteps = 10;

// Of a request, or of a token: what a trace calls steps, with those of a token's layers in one.
struct Step {
  uint64_t index = 0;  // from 0, whatever the trace calls it
  size_t part = 0;     // of kParts
  std::vector<prefetch::Access> accesses = {};
  std::vector<prefetch::PageNumber> pages = {};  // of these, each once
};

// At the end of the trace there are fewer.
using Ahead = std::deque<Step>;

Result<uint64_t> count_steps(const paging::AccessTrace& trace);
// Calls `use` with each of `steps` steps, in order, and what comes behind it.
Result<void> for_each_step(const paging::AccessTrace& trace, uint64_t steps,
                           const std::function<void(const Step&, const Ahead&)>& use);

// In which part a step lies.
constexpr size_t part_of(uint64_t step_index, uint64_t steps) {
  return std::min(step_index * kParts / steps, kParts - 1);
}

}  // namespace farpage::analyse
