#include "bench/paging/all_runs.h"
#include "bench/vtime/timed_replay.h"

namespace farpage::vtime {

Result<std::vector<TimedRun>> replay_all(const paging::AccessTrace& trace,
                                         const TimedOptions& options,
                                         std::span<const prefetch::ChosenPolicy> policies,
                                         std::span<const uint64_t> budgets_pages,
                                         std::span<const prefetch::ChosenPrefetcher> prefetchers,
                                         const std::function<void(size_t)>& progress) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  const auto replay_one = [&](uint64_t budget_pages, prefetch::Policy& policy,
                              prefetch::Prefetcher& prefetcher) {
    return replay(trace, budget_pages, options, policy, prefetcher);
  };
  return run_each(trace, policies, budgets_pages, prefetchers, true, replay_one, progress);
}

Result<std::vector<TimedRun>> run_each(const paging::AccessTrace& trace,
                                       std::span<const prefetch::ChosenPolicy> policies,
                                       std::span<const uint64_t> budgets_pages,
                                       std::span<const prefetch::ChosenPrefetcher> prefetchers,
                                       bool at_once, const ReplayOne& replay_one,
                                       const std::function<void(size_t)>& progress) {
  Result<void> checked;
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
    prefetch::Setting ahead = setting_of(prefetcher.info->sees_future);
    if (!policy.info->sees_future) {
      ahead.make_policy = [&] { return policy.make(setting_of(false)); };
    }
    const auto made_prefetcher = prefetcher.make(ahead);
    auto result = replay_one(runs[i].budget_pages, *made_policy, *made_prefetcher);
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
    if (auto one = run(i); !one) return tl::unexpected(one.error());
    progress(i + 1);
  }
  return runs;
}

}  // namespace farpage::vtime
