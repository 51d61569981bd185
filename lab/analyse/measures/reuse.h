#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "lab/analyse/measures/bootstrap.h"
#include "lab/analyse/measures/recency.h"
#include "lab/analyse/measures/steps.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

// Events that move a page. docs/analyse.md has the rules.
enum class PageClass : uint8_t { kOneShot, kPersistent, kRecency, kMilestone };
inline constexpr std::array<std::string_view, 4> kPageClassNames = {
    "one-shot", "persistent", "recency-driven", "milestone-driven"};

// How pages come back: what every question about a trace begins with. Memory grows with pages.
class Reuse {
 public:
  explicit Reuse(size_t parts) : persistent_(parts), reentered_(parts), fresh_(parts) {}

  void step(const Step& step);

  uint64_t pages() const { return recency_.pages(); }  // that were used so far
  const Recency& recency() const { return recency_; }
  uint64_t steps_with(prefetch::PageNumber page) const { return uses_[page].count; }
  bool was_in(const Step& step, prefetch::PageNumber page) const {
    return uses_[page].count > 0 && uses_[page].last == step.index;
  }
  PageClass class_of(prefetch::PageNumber page) const;

  // How many other pages were used between two uses of one, at most, in such a share of the cases.
  bool has_distances() const { return distances_.count() > 0; }
  uint64_t distance(double quantile) const;

  // Of the pages that a step demands, each once: the step before demanded them too, one farther
  // back did, none did.
  Estimate persistent(uint64_t seed) const { return estimate_share(persistent_, seed); }
  Estimate reentered(uint64_t seed) const { return estimate_share(reentered_, seed); }
  Estimate fresh(uint64_t seed) const { return estimate_share(fresh_, seed); }

 private:
  struct Uses {
    uint64_t count = 0;  // of steps
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t near_gaps = 0;
  };

  void use(prefetch::PageNumber page, const Step& step);

  Recency recency_;
  prefetch::PerPage<Uses> uses_;
  Histogram distances_;            // from 1
  std::vector<Share> persistent_;  // of each part
  std::vector<Share> reentered_;
  std::vector<Share> fresh_;
};

}  // namespace farpage::analyse
