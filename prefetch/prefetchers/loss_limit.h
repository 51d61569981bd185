#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "prefetch/paged_memory.h"
#include "prefetch/parameters.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {

// How much a prefetcher may lose, of what the memory would miss if nothing were fetched ahead,
// which is followed here in the shadow, with the memory's policy (lru where that is not known): a
// 50th of these misses until that is 384, and a 200th of those that follow. Gains count for it, up
// to as many. A prefetcher that has lost all of it names nothing until it has come together again,
// and at first until it is 16: a page fetched ahead pays only after some steps, in which it costs,
// so that a little is too little to try it. On one thread.
class LossLimit {
 public:
  // Without a budget nothing is known of the memory, and all is allowed.
  explicit LossLimit(const Setting& setting)
      : is_known_memory_(setting.budget_pages > 0),
        policy_(setting.make_policy ? setting.make_policy() : lru().make(setting, {})),
        shadow_(setting.budget_pages, *policy_),
        allows_(!is_known_memory_) {}

  void on_access(const Access& access) {
    if (!is_known_memory_) return;
    const bool is_hit = shadow_.access(access);
    uint8_t& accesses = accesses_.at(access.page);
    if (!is_hit && accesses > 0) {
      credit_ = std::min(credit_ + 1 + (most_ < kMost ? kAllowedAtFirst : kAllowed), kMost);
      most_ = std::min(most_ + kAllowedAtFirst, kMost);
    }
    accesses = accesses == 0 ? 1 : 2;
    if (credit_ >= std::max(most_, kLeast)) allows_ = true;
  }
  // A page that was accessed has to be waited for. At its first access that is nobody's loss.
  void on_miss(PageNumber page) {
    if (!is_known_memory_ || accesses_[page] < 2) return;
    --credit_;
    if (credit_ <= 0) allows_ = false;
  }
  // Another page has this number.
  void on_forget(PageNumber page) { accesses_.at(page) = 0; }
  bool allows() const { return allows_; }

 private:
  static constexpr double kAllowedAtFirst = 0.02;  // of the shadow's misses
  static constexpr double kAllowed = 0.005;
  static constexpr double kLeast = 16;  // misses
  static constexpr double kMost = 384;

  const bool is_known_memory_;
  const std::unique_ptr<Policy> policy_;
  PagedMemory shadow_;
  PerPage<uint8_t> accesses_;  // 2: or more
  double credit_ = 0;
  double most_ = 0;  // that may be lost at once by now
  bool allows_;
};

}  // namespace farpage::prefetch
