#include "lab/decode/wakes.h"

#include <algorithm>

#include "lab/decode/draw.h"

namespace farpage::decode {

void Wakes::schedule(Random& random, uint64_t now, double gap_factor, uint32_t position,
                     uint32_t head, double pages) {
  const uint64_t gap =
      draw_gap_steps(random, options_.gap_median_steps * gap_factor, options_.gap_sigma);
  uint64_t step = now + gap;
  if (step >= script_.steps()) return;
  const bool is_wanted = pages_in_bursts_ < options_.burst_wakes * (pages_ + pages);
  if (const uint64_t burst = burst_near(now, step); is_wanted && burst > now) {
    const uint64_t moved = std::max(burst, step) - std::min(burst, step);
    if (moved <= gap / 2) {
      step = burst;
      pages_in_bursts_ += pages;
    }
  }
  pages_ += pages;
  queue_.push({step, position, head, true});
}

void Wakes::follow(Random& random, uint64_t now, uint32_t position, uint32_t head) {
  const uint64_t spread = options_.return_spread_steps;
  queue_.push({now + (spread > 0 ? random.below(spread + 1) : 0), position, head, false});
}

std::optional<Wake> Wakes::next(uint64_t step) {
  if (queue_.empty() || queue_.top().step > step) return std::nullopt;
  const Wake wake = queue_.top();
  queue_.pop();
  return wake;
}

void Wakes::note_burst(double pages) {
  pages_ += pages;
  pages_in_bursts_ += pages;
}

// `now`: there is none.
uint64_t Wakes::burst_near(uint64_t now, uint64_t step) const {
  const std::vector<uint64_t>& bursts = script_.burst_steps();
  const auto after = std::ranges::lower_bound(bursts, step);
  const bool has_before = after != bursts.begin() && after[-1] > now;
  if (after == bursts.end()) return has_before ? after[-1] : now;
  return has_before && step - after[-1] < *after - step ? after[-1] : *after;
}

}  // namespace farpage::decode
