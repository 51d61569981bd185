#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "prefetch/access.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

// Pages in the order of their last use. Memory grows with the pages; each question costs the
// logarithm of their number (a Fenwick tree over places in time, renumbered when they are used up).
class Recency {
 public:
  // How many other pages were used since this one was; nothing of one that never was.
  std::optional<uint64_t> rank(prefetch::PageNumber page) const;
  void use(prefetch::PageNumber page);

  uint64_t pages() const { return pages_; }  // that were used

 private:
  static constexpr uint32_t kNever = UINT32_MAX;

  void renumber();
  void count(size_t place, int32_t by);
  uint64_t counted_before(size_t place) const;

  prefetch::PerPage<uint32_t> places_ = prefetch::PerPage<uint32_t>(kNever);
  std::vector<prefetch::PageNumber> used_;  // by place; of one that was used again since, as well
  std::vector<int32_t> tree_;
  uint64_t pages_ = 0;
};

}  // namespace farpage::analyse
