#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lab/analyse/measures/bootstrap.h"
#include "lab/analyse/measures/finding.h"
#include "lab/analyse/measures/reuse.h"
#include "lab/analyse/measures/steps.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

// Of what the next steps demand and was there, the share that a rule would have kept near, which
// keeps so many pages; of all, and without what the step itself demands; and the same if as many of
// the other pages, drawn at random, were near.
class Foretelling {
 public:
  Foretelling(uint64_t ahead_steps, size_t parts)
      : ahead_steps_(ahead_steps), all_(parts), reentries_(parts) {}

  // After the step. `is_near` tells of a page that was used so far, `near_pages` of how many.
  template <typename IsNear>
  void step(const Step& step, const Ahead& ahead, const Reuse& reuse, uint64_t near_pages,
            IsNear is_near) {
    if (ahead.size() < ahead_steps_) return;
    const uint64_t others = reuse.pages() - step.pages.size();
    uint64_t others_near = near_pages;
    for (const prefetch::PageNumber page : step.pages) others_near -= is_near(page) ? 1 : 0;
    const double by_chance = ratio(static_cast<double>(others_near), static_cast<double>(others));
    ++asked_;
    for (uint64_t i = 0; i < ahead_steps_; ++i) {
      for (const prefetch::PageNumber page : ahead[i].pages) {
        if (asked_of_[page] == asked_) continue;
        asked_of_.at(page) = asked_;
        if (reuse.steps_with(page) == 0) continue;
        const double near = is_near(page) ? 1 : 0;
        add(all_[ahead[i].part], {near, 1});
        if (!reuse.was_in(step, page)) add(reentries_[ahead[i].part], {near, by_chance, 1});
      }
    }
  }

  bool has_reentries() const {
    return std::ranges::any_of(reentries_, [](const auto& part) { return part[2] > 0; });
  }
  Estimate of_reentries(uint64_t seed) const {
    return of(seed, [](const Sums<3>& sums) { return ratio(sums[0], sums[2]); });
  }
  // In shares of 1.
  Estimate beyond_chance(uint64_t seed) const {
    return of(seed, [](const Sums<3>& sums) { return ratio(sums[0] - sums[1], sums[2]); });
  }
  std::vector<Figure> figures(uint64_t seed) const {
    const auto by_chance = [](const Sums<3>& sums) { return ratio(sums[1], sums[2]); };
    return {{"recall", "of all that they demand and was there", estimate_share(all_, seed)},
            {"recall_of_reentries", "of what comes back, this step left out", of_reentries(seed)},
            {"recall_by_chance", "the same by chance", of(seed, by_chance)},
            {"beyond_chance", "more than by chance", beyond_chance(seed)}};
  }

 private:
  template <size_t kCount>
  static void add(Sums<kCount>& sums, const Sums<kCount>& more) {
    for (size_t i = 0; i < kCount; ++i) sums[i] += more[i];
  }
  template <typename Statistic>
  Estimate of(uint64_t seed, Statistic statistic) const {
    return estimate(std::span<const Sums<3>>(reentries_), seed, statistic);
  }

  const uint64_t ahead_steps_;
  uint64_t asked_ = 0;
  prefetch::PerPage<uint64_t> asked_of_;
  // Of the parts that demand.
  std::vector<Share> all_;
  std::vector<Sums<3>> reentries_;  // near, near by chance, all
};

}  // namespace farpage::analyse
