#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "lab/paging/access_trace.h"
#include "lab/paging/paging.h"
#include "lab/vtime/lower_tiers.h"
#include "prefetch/registry/registry.h"
#include "prefetch/scheduler.h"

namespace farpage::vtime {

struct TimedOptions {
  uint64_t page_bytes = 65'536;
  uint64_t compute_ns = 20'000'000;  // of a step, once all its pages are there
  uint64_t prefetch_pages = 32;      // at most, that are asked for after a step: those near are not
  std::vector<TierOptions> tiers = {TierOptions()};
  prefetch::SchedulerOptions scheduler = {};

  Result<void> validate() const;
};

struct TimedResult {
  paging::PagingResult paging;  // hits are what was there when it was demanded
  uint64_t steps = 0;
  uint64_t stalled_steps = 0;
  uint64_t overfull_steps = 0;  // that demanded more pages than there is room for
  uint64_t stall_ns = 0;        // of all steps: from its beginning until all its pages were there
  double stall_p50_ns = 0;      // of a step
  double stall_p99_ns = 0;
  double demand_p50_ns = 0;  // of a step that fetched what it demanded: until all of that was there
  double demand_p99_ns = 0;
  uint64_t end_ns = 0;          // of the last step's compute
  uint64_t demand_fetches = 0;  // that nothing had begun before
  uint64_t waited_ns = 0;       // by all of these, for the way to be free
  prefetch::PrefetchAccount prefetch = {};
  uint64_t fetched_pages = 0;
  // Over a real wire alone: pages that were demanded and did not come, bytes that were wrong where
  // they landed, and how much later than its deadline a verdict came.
  uint64_t recomputed_pages = 0;
  uint64_t wrong_bytes = 0;
  uint64_t lateness_ns = 0;
  uint64_t written_pages = 0;       // out of the near memory, and from tier to tier
  uint64_t imprecise_accesses = 0;  // to pages that lost precision in a tier
  double imprecise_mass = 0;        // the share of all mass that these have
  std::optional<prefetch::ForesightScore> foresight = {};  // of who reckons with probabilities

  double accuracy() const;         // useful / begun
  double coverage() const;         // useful / (useful + demand fetches)
  double timeliness() const;       // timely / useful
  double imprecise_share() const;  // of accesses
  double steps_per_s() const;
};

// Replays a trace in virtual time. At the beginning of a step all its pages are demanded at once;
// what is not in the near memory, whose pages the policy chooses, is fetched from the nearest tier
// that has it, over that tier's link; a page that was never accessed is made where it is needed.
// When all are there the step computes. Pages that the prefetcher names as a step begins follow its
// demands, as far as NearMemory may hold them, and as many at a time as the scheduler allows; those
// that have not begun when the next step asks, and are not named again, are given up. A prefetched
// page takes its room once the first step after it arrived has sent its demands; for it goes what
// the policy names first of the pages that the step does not demand. Where that is one that the
// prefetcher, asked last, named before it, or there is none, it is dropped. It is held until it is
// used, or as long as it can be of use. `make_placement` is for all tiers but the last.
Result<TimedResult> replay(const paging::AccessTrace& trace, uint64_t budget_pages,
                           const TimedOptions& options, prefetch::Policy& policy,
                           prefetch::Prefetcher& prefetcher,
                           const MakePlacement& make_placement = {});

// The default policies of the tiers below: lru.
std::span<const prefetch::ChosenPolicy> usual_placement();

// The runs to replay: each policy with each budget, each placement in the tiers below the near
// memory and each prefetcher, in this order.
struct TimedPlan {
  std::span<const prefetch::ChosenPolicy> policies;
  std::span<const uint64_t> budgets_pages;
  std::span<const prefetch::ChosenPrefetcher> prefetchers;
  std::span<const prefetch::ChosenPolicy> placements = usual_placement();

  // Whether all of it can be replayed with this trace.
  Result<void> check(const paging::AccessTrace& trace) const;
  size_t runs() const {
    return policies.size() * budgets_pages.size() * placements.size() * prefetchers.size();
  }
};

struct TimedRun {
  std::string policy;  // as they were named
  std::string prefetcher;
  uint64_t budget_pages = 0;
  TimedResult result;
  std::string placement = {};
  bool is_live = false;  // its pages were really fetched
};

using ReplayOne = std::function<Result<TimedResult>(uint64_t budget_pages, prefetch::Policy& policy,
                                                    prefetch::Prefetcher& prefetcher,
                                                    const MakePlacement& make_placement)>;
// `at_once`: as many as there are processors. `progress` hears, from one thread at a time, how many
// are done. Fails where one needs a signal that the trace does not have, or the trace cannot be
// read.
Result<std::vector<TimedRun>> run_each(const paging::AccessTrace& trace, const TimedPlan& plan,
                                       bool at_once, const ReplayOne& replay_one,
                                       const std::function<void(size_t)>& progress);

// run_each() in virtual time.
Result<std::vector<TimedRun>> replay_all(const paging::AccessTrace& trace,
                                         const TimedOptions& options, const TimedPlan& plan,
                                         const std::function<void(size_t)>& progress);

}  // namespace farpage::vtime
