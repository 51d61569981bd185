#pragma once

#include <cstdint>
#include <optional>

#include "prefetch/per_page.h"
#include "prefetch/policy.h"

namespace farpage::prefetch {

// The pages that a policy keeps, which hears of each as it comes and goes. On one thread.
class ResidentSet {
 public:
  // `policy` outlives it.
  explicit ResidentSet(Policy& policy) : policy_(policy) {}

  bool contains(PageNumber page) const { return is_resident_[page] != 0; }
  uint64_t size() const { return size_; }

  // Of one that it does not contain.
  void insert(PageNumber page, uint64_t step) {
    is_resident_.at(page) = 1;
    ++size_;
    policy_.on_insert(page, step);
  }
  // The same, so that there are never more than so many: answers what the policy let go for it.
  // Where there is no room for any, nothing comes.
  std::optional<PageNumber> insert_within(uint64_t budget_pages, PageNumber page, uint64_t step) {
    if (budget_pages == 0) return std::nullopt;
    std::optional<PageNumber> gone;
    if (size_ == budget_pages) {
      gone = policy_.victim(step);
      remove(*gone, step);
    }
    insert(page, step);
    return gone;
  }
  // Of one that it contains.
  void remove(PageNumber page, uint64_t step) {
    is_resident_.at(page) = 0;
    --size_;
    policy_.on_evict(page, step);
  }

 private:
  Policy& policy_;
  uint64_t size_ = 0;
  PerPage<uint8_t> is_resident_;
};

}  // namespace farpage::prefetch
