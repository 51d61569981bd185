#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/policy.h"

namespace farpage::live {

// A step's accesses, and the pages that the step loop expects after it, by the trace's numbers.
struct StepPlan {
  std::vector<prefetch::Access> accesses;
  std::span<const prefetch::PageNumber> expected;
  size_t heard = 0;                                    // of the accesses, by the lane's prefetcher
  prefetch::PerPage<prefetch::PageNumber> lane_pages;  // numbers that the lane knows pages by
};

// A lane's prefetcher that names what the plan expects. The prefetcher that decided on it is the
// step loop's own, for it hears of the near memory too.
class PlannedPages final : public prefetch::Prefetcher {
 public:
  // `plan` outlives it.
  explicit PlannedPages(StepPlan& plan) : plan_(plan) {}

  void on_access(const prefetch::Access& access) override {
    plan_.lane_pages.at(plan_.accesses[plan_.heard++].page) = access.page;
  }
  size_t candidates(std::span<prefetch::PageNumber> pages) override {
    const auto named = plan_.expected.first(std::min(pages.size(), plan_.expected.size()));
    std::ranges::transform(named, pages.begin(),
                           [&](prefetch::PageNumber page) { return plan_.lane_pages[page]; });
    return named.size();
  }

 private:
  StepPlan& plan_;
};

}  // namespace farpage::live
