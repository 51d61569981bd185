#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "prefetch/policy.h"

namespace farpage::prefetch {

// Of accesses to these pages, which outlive it, in steps that begin there.
class KnownFuture final : public Future {
 public:
  explicit KnownFuture(const std::vector<PageNumber>& pages,
                       const std::vector<uint64_t>& step_begins = {})
      : pages_(pages), step_begins_(step_begins), next_(pages.size(), kNever) {
    for (size_t i = 0; i < pages.size(); ++i) {
      for (size_t j = pages.size() - 1; j > i; --j) {
        if (pages[j] == pages[i]) next_[i] = j;
      }
    }
  }
  uint64_t next(uint64_t access_number) const override { return next_[access_number]; }
  PageNumber page(uint64_t access_number) const override { return pages_[access_number]; }
  uint64_t accesses() const override { return pages_.size(); }
  std::span<const uint64_t> step_begins() const override { return step_begins_; }

 private:
  const std::vector<PageNumber>& pages_;
  const std::vector<uint64_t> step_begins_;
  std::vector<uint64_t> next_;
};

}  // namespace farpage::prefetch
