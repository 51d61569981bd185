#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "prefetch/access.h"

namespace farpage::prefetch {

// How much more of one selection is in another than chance would have it, 0 to 1 (FlexiCache's
// ranking consistency overlap): both name so many of `pages` pages, in the order of their numbers.
double overlap_beyond_chance(std::span<const PageNumber> one, std::span<const PageNumber> other,
                             uint64_t pages);

// A head's selections, step by step, and how steady they are.
class Selections {
 public:
  static constexpr size_t kStepsBack = 15;

  // Of the next step, in the order of their numbers; `pages`: how many the head has by now.
  void add(std::vector<PageNumber> selected, uint64_t pages);
  // The mean overlap with each of the 15 steps before, over all steps so far; 1 before the second.
  double stability() const;
  const std::vector<PageNumber>& latest() const { return recent_.back(); }  // of a step, at least
  bool empty() const { return recent_.empty(); }

 private:
  std::deque<std::vector<PageNumber>> recent_;
  double sum_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace farpage::prefetch
