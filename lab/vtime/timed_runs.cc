#include "lab/paging/all_runs.h"
#include "lab/vtime/timed_replay.h"
#include "prefetch/registry/registry.h"

namespace farpage::vtime {

std::span<const prefetch::ChosenPolicy> usual_placement() {
  static const std::vector<prefetch::ChosenPolicy> lru = {*prefetch::choose_policy("lru")};
  return lru;
}

Result<void> TimedPlan::check(const paging::AccessTrace& trace) const {
  Result<void> checked;
  for (const auto& chosen : {policies, placements}) {
    for (const auto& policy : chosen) {
      if (checked) checked = policy.check(trace.signals, trace.layout);
    }
  }
  for (const auto& prefetcher : prefetchers) {
    if (checked) checked = prefetcher.check(trace.signals);
  }
  return checked;
}

Result<std::vector<TimedRun>> replay_all(const paging::AccessTrace& trace,
                                         const TimedOptions& options, const TimedPlan& plan,
                                         const std::function<void(size_t)>& progress) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  const auto replay_one = [&](uint64_t budget_pages, prefetch::Policy& policy,
                              prefetch::Prefetcher& prefetcher,
                              const MakePlacement& make_placement) {
    return replay(trace, budget_pages, options, policy, prefetcher, make_placement);
  };
  return run_each(trace, plan, true, replay_one, progress);
}

Result<std::vector<TimedRun>> run_each(const paging::AccessTrace& trace, const TimedPlan& plan,
                                       bool at_once, const ReplayOne& replay_one,
                                       const std::function<void(size_t)>& progress) {
  if (auto checked = plan.check(trace); !checked) return tl::unexpected(checked.error());
  auto future = paging::future_for(trace, plan.policies);
  if (future && !*future) future = paging::future_for(trace, plan.placements);
  if (future && !*future) future = paging::future_for(trace, plan.prefetchers);
  if (!future) return tl::unexpected(future.error());

  struct Chosen {
    const prefetch::ChosenPolicy& policy;
    const prefetch::ChosenPolicy& placement;
    const prefetch::ChosenPrefetcher& prefetcher;
  };
  std::vector<Chosen> chosen;
  std::vector<TimedRun> runs;
  for (const prefetch::ChosenPolicy& policy : plan.policies) {
    for (const uint64_t budget_pages : plan.budgets_pages) {
      for (const prefetch::ChosenPolicy& placement : plan.placements) {
        for (const prefetch::ChosenPrefetcher& prefetcher : plan.prefetchers) {
          chosen.push_back({policy, placement, prefetcher});
          runs.push_back({policy.label, prefetcher.label, budget_pages, {}, placement.label});
        }
      }
    }
  }
  const auto run = [&](size_t i) -> Result<void> {
    const prefetch::ChosenPolicy& policy = chosen[i].policy;
    const prefetch::ChosenPolicy& placement = chosen[i].placement;
    const prefetch::ChosenPrefetcher& prefetcher = chosen[i].prefetcher;
    const auto setting_of = [&](const auto& info, uint64_t pages) {
      prefetch::Setting setting;
      setting.budget_pages = pages;
      setting.layout = trace.layout;
      if (info.sees_future) setting.future = &**future;
      return setting;
    };
    const uint64_t budget_pages = runs[i].budget_pages;
    const auto made_policy = policy.make(setting_of(*policy.info, budget_pages));
    prefetch::Setting ahead = setting_of(*prefetcher.info, budget_pages);
    if (!policy.info->sees_future) {
      ahead.make_policy = [&] { return policy.make(setting_of(*policy.info, budget_pages)); };
    }
    const auto made_prefetcher = prefetcher.make(ahead);
    const MakePlacement make_placement = [&](uint64_t capacity_pages) {
      return placement.make(setting_of(*placement.info, capacity_pages));
    };
    auto result = replay_one(budget_pages, *made_policy, *made_prefetcher, make_placement);
    if (!result) return tl::unexpected(result.error());
    runs[i].result = *result;
    return {};
  };
  if (at_once) {
    if (auto all = paging::make_all_runs(runs.size(), run, progress); !all) {
      return tl::unexpected(all.error());
    }
    return runs;
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (auto one = paging::make_run(i, run); !one) return tl::unexpected(one.error());
    progress(i + 1);
  }
  return runs;
}

}  // namespace farpage::vtime
