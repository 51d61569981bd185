#include "bench/analyse/analysis.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/histogram.h"
#include "bench/analyse/recency.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {
namespace {

using paging::AccessTrace;
using prefetch::Access;
using prefetch::PageNumber;

constexpr uint64_t kNearSteps = 10;  // a gap that recency bridges

using Pages = std::vector<PageNumber>;  // of a step, each once

// Calls `use` with the pages of each step.
template <typename Use>
Result<void> for_each_step(const AccessTrace& trace, Use use) {
  Pages pages;
  prefetch::PerPage<uint64_t> named;  // in which step, from 1
  uint64_t steps = 1;
  uint64_t step = 0;
  auto read = for_each_access(trace, [&](const Access& access) {
    if (access.step != step && !pages.empty()) {
      use(std::as_const(pages));
      pages.clear();
      ++steps;
    }
    step = access.step;
    if (named[access.page] == steps) return;
    named.at(access.page) = steps;
    pages.push_back(access.page);
  });
  if (read && !pages.empty()) use(std::as_const(pages));
  return read;
}

class Analyser {
 public:
  Analyser(uint64_t steps, uint64_t budget_pages) : steps_(steps), budget_pages_(budget_pages) {}

  void step(const Pages& pages) {
    ahead_.push_back(pages);
    if (ahead_.size() > kAheadSteps) settle();
  }

  Analysis end(uint64_t seed) {
    while (!ahead_.empty()) settle();
    Analysis analysis;
    analysis.steps = steps_;
    analysis.budget_pages = budget_pages_;
    analysis.seed = seed;
    if (distances_.count() > 0) {
      for (const double q : kQuantiles) {
        // Counted from 1, as the histogram does.
        const auto upper = static_cast<uint64_t>(distances_.quantile(q));
        analysis.reuse_distance_quantiles.push_back(upper > 0 ? upper - 1 : 0);
      }
    }
    analysis.persistent = estimate(persistent_, seed);
    analysis.reentered = estimate(reentered_, seed);
    analysis.fresh = estimate(fresh_, seed);
    analysis.recall = estimate(recall_, seed);
    analysis.recall_of_reentries = estimate(reentries_, seed);
    analysis.recall_of_reentries_random = estimate(reentries_random_, seed);
    for (PageNumber page = 0; page < recency_.pages(); ++page) {
      PageClassShare& share = analysis.classes[static_cast<size_t>(class_of(uses_[page]))];
      ++share.pages;
      share.accesses += uses_[page].count;
    }
    return analysis;
  }

 private:
  struct Uses {
    uint64_t count = 0;  // of steps
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t near_gaps = 0;
  };
  using Parts = std::vector<Part>;

  // The step that is first in ahead_, with those behind it to come.
  void settle() {
    const Pages pages = std::move(ahead_.front());
    ahead_.pop_front();
    const size_t part = settled_ * kParts / steps_;
    for (const PageNumber page : pages) use(page, part);
    if (ahead_.size() == kAheadSteps) foretell(pages.size(), part);
    ++settled_;
  }

  void use(PageNumber page, size_t part) {
    Uses& uses = uses_.at(page);
    const bool is_known = uses.count > 0;
    const bool is_persistent = is_known && uses.last + 1 == settled_;
    add(persistent_, part, is_persistent ? 1 : 0);
    add(reentered_, part, is_known && !is_persistent ? 1 : 0);
    add(fresh_, part, is_known ? 0 : 1);
    if (const auto rank = recency_.rank(page)) distances_.add(static_cast<double>(*rank + 1));
    if (is_known && settled_ - uses.last <= kNearSteps) ++uses.near_gaps;
    if (!is_known) uses.first = settled_;
    uses.last = settled_;
    ++uses.count;
    recency_.use(page);
  }

  // What of the next steps' pages, those that there are by now, is among the most recent.
  void foretell(uint64_t step_pages, size_t part) {
    const uint64_t known = recency_.pages();
    const uint64_t near = std::min(budget_pages_, known);
    const uint64_t others_near = near - std::min(near, step_pages);
    const double by_chance = known > step_pages ? static_cast<double>(others_near) /
                                                      static_cast<double>(known - step_pages)
                                                : 0;
    ++foretold_;
    for (const Pages& step : ahead_) {
      for (const PageNumber page : step) {
        if (foretold_in_[page] == foretold_) continue;
        foretold_in_.at(page) = foretold_;
        const auto rank = recency_.rank(page);
        if (!rank) continue;
        const double is_near = *rank < budget_pages_ ? 1 : 0;
        add(recall_, part, is_near);
        if (uses_[page].last == settled_) continue;
        add(reentries_, part, is_near);
        add(reentries_random_, part, by_chance);
      }
    }
  }

  static void add(Parts& parts, size_t part, double counted) {
    parts[part].counted += counted;
    parts[part].of += 1;
  }

  static PageClass class_of(const Uses& uses) {
    if (uses.count == 1) return PageClass::kOneShot;
    if (2 * uses.count >= uses.last - uses.first + 1) return PageClass::kPersistent;
    return 2 * uses.near_gaps >= uses.count - 1 ? PageClass::kRecency : PageClass::kMilestone;
  }

  const uint64_t steps_;
  const uint64_t budget_pages_;
  std::deque<Pages> ahead_;
  uint64_t settled_ = 0;  // steps
  Recency recency_;
  prefetch::PerPage<Uses> uses_;
  Histogram distances_;  // from 1
  uint64_t foretold_ = 0;
  prefetch::PerPage<uint64_t> foretold_in_;
  Parts persistent_ = Parts(kParts);
  Parts reentered_ = Parts(kParts);
  Parts fresh_ = Parts(kParts);
  Parts recall_ = Parts(kParts);
  Parts reentries_ = Parts(kParts);
  Parts reentries_random_ = Parts(kParts);
};

}  // namespace

Result<Analysis> analyse(const AccessTrace& trace, const AnalysisOptions& options) {
  uint64_t steps = 0;
  if (auto read = for_each_step(trace, [&](const Pages&) { ++steps; }); !read) {
    return tl::unexpected(read.error());
  }
  if (steps == 0) return fail(Code::kInvalid, "the trace has no accesses: there is nothing to say");
  const uint64_t tenth = std::max<uint64_t>(1, trace.pages / 10);
  Analyser analyser(steps, options.budget_pages == 0 ? tenth : options.budget_pages);
  auto read = for_each_step(trace, [&](const Pages& pages) { analyser.step(pages); });
  if (!read) return tl::unexpected(read.error());
  return analyser.end(options.seed);
}

}  // namespace farpage::analyse
