#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "prefetch/access.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

// The pages with the most attention so far, summed over all accesses: such a share of all that were
// named, rounded up. Each change costs the logarithm of their number.
class TopMass {
 public:
  explicit TopMass(double share) : share_(share) {}

  void add(prefetch::PageNumber page, float mass);

  bool is_top(prefetch::PageNumber page) const { return pages_[page].is_top; }
  uint64_t top_pages() const { return top_.size(); }

 private:
  using Rank = std::pair<double, prefetch::PageNumber>;
  struct Page {
    double mass = 0;
    bool is_top = false;
  };

  void move(Rank rank, bool to_top);

  const double share_;
  prefetch::PerPage<Page> pages_;
  std::set<Rank> top_;
  std::set<Rank> rest_;  // none of which has more than any of the top
};

}  // namespace farpage::analyse
