#pragma once

#include <algorithm>
#include <cstdint>

#include "prefetch/page_list.h"

namespace farpage::prefetch {

// How much a prefetcher may lose: a 200th of what a memory of the same size misses that keeps
// what was used last and fetches nothing ahead, which is kept here in the shadow. What it has
// gained before counts for it, up to a limit. On one thread.
class LossLimit {
 public:
  // 0: nothing is known of the memory, and all is allowed.
  explicit LossLimit(uint64_t budget_pages) : budget_pages_(budget_pages) {}

  // The page is demanded. `is_there`: how likely it is near, or was fetched ahead.
  void on_access(PageNumber page, double is_there) {
    if (budget_pages_ == 0) return;
    const bool shadow_has_it = shadow_.contains(page);
    if (shadow_has_it) {
      shadow_.move_to_back(page);
    } else {
      if (shadow_.size() == budget_pages_) shadow_.remove(shadow_.front());
      shadow_.push_back(page);
    }
    const double lost = (1 - is_there) - (shadow_has_it ? 0 : 1 + kAllowed);
    credit_ = std::min(credit_ - lost, kMost);
  }
  bool allows() const { return credit_ > 0; }

 private:
  static constexpr double kAllowed = 0.005;  // of the shadow's misses
  static constexpr double kMost = 256;       // misses

  const uint64_t budget_pages_;
  PageList shadow_;
  double credit_ = 8;
};

}  // namespace farpage::prefetch
