#include "bench/paging/all_runs.h"
#include "bench/vtime/timed_replay.h"

namespace farpage::vtime {

Result<std::vector<TimedRun>> replay_all(const paging::AccessTrace& trace,
                                         const TimedOptions& options,
                                         std::span<const prefetch::ChosenPolicy> policies,
                                         std::span<const uint64_t> budgets_pages,
                                         std::span<const prefetch::ChosenPrefetcher> prefetchers,
                                         const std::function<void(size_t)>& progress) {
  auto checked = options.validate();
  for (const auto& policy : policies) {
    if (checked) checked = policy.check(trace.signals, trace.layout);
  }
  for (const auto& prefetcher : prefetchers) {
    if (checked) checked = prefetcher.check(trace.signals);
  }
  if (!checked) return tl::unexpected(checked.error());
  auto future = paging::future_for(trace, policies);
  if (future && !*future) future = paging::future_for(trace, prefetchers);
  if (!future) return tl::unexpected(future.error());

  std::vector<TimedRun> runs;
  for (const prefetch::ChosenPolicy& policy : policies) {
    for (const uint64_t budget_pages : budgets_pages) {
      for (const prefetch::ChosenPrefetcher& prefetcher : prefetchers) {
        runs.push_back({policy.label, prefetcher.label, budget_pages, {}});
      }
    }
  }
  const auto run = [&](size_t i) -> Result<void> {
    const auto& policy = policies[i / prefetchers.size() / budgets_pages.size()];
    const auto& prefetcher = prefetchers[i % prefetchers.size()];
    const auto setting_of = [&](bool sees_future) {
      prefetch::Setting setting;
      setting.budget_pages = runs[i].budget_pages;
      setting.layout = trace.layout;
      if (sees_future) setting.future = &**future;
      return setting;
    };
    const auto made_policy = policy.make(setting_of(policy.info->sees_future));
    const auto made_prefetcher = prefetcher.make(setting_of(prefetcher.info->sees_future));
    auto result = replay(trace, runs[i].budget_pages, options, *made_policy, *made_prefetcher);
    if (!result) return tl::unexpected(result.error());
    runs[i].result = *result;
    return {};
  };
  if (auto all = paging::make_all_runs(runs.size(), run, progress); !all) {
    return tl::unexpected(all.error());
  }
  return runs;
}

}  // namespace farpage::vtime
