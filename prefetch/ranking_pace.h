#pragma once

#include <cstddef>
#include <cstdint>

namespace farpage::prefetch {

// When to rank all of something anew: after a window of steps, and not before there was an access
// for every two of what is ranked, so that few accesses a step cost no ranking for each of them.
class RankingPace {
 public:
  explicit RankingPace(uint64_t window_steps) : window_steps_(window_steps) {}

  void on_access() { ++accesses_; }
  void on_ranked(uint64_t step) {
    ranked_at_ = step;
    accesses_ = 0;
  }

  bool is_window_over(uint64_t step) const { return step - ranked_at_ >= window_steps_; }
  bool is_paid_for(size_t ranked) const { return accesses_ >= ranked / kRankedOfAnAccess; }
  bool is_due(uint64_t step, size_t ranked) const {
    return is_window_over(step) && is_paid_for(ranked);
  }

 private:
  static constexpr size_t kRankedOfAnAccess = 2;

  const uint64_t window_steps_;
  uint64_t ranked_at_ = 0;  // the step
  uint64_t accesses_ = 0;   // since then
};

}  // namespace farpage::prefetch
