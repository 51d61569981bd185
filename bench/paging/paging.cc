#include "bench/paging/paging.h"

#include <optional>

#include "base/clock.h"
#include "bench/paging/all_runs.h"

namespace farpage::paging {

double PagingResult::hit_rate() const {
  return accesses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(accesses);
}

double PagingRun::accesses_per_s() const {
  return seconds > 0 ? static_cast<double>(result.accesses) / seconds : 0.0;
}

Result<PagingResult> page(const AccessTrace& trace, uint64_t budget_pages,
                          prefetch::Policy& policy) {
  PagingResult result;
  std::vector<bool> resident(trace.pages);
  std::vector<bool> seen(trace.pages);
  uint64_t used_pages = 0;
  const auto on_access = [&](const prefetch::Access& access) {
    policy.on_access(access);
    ++result.accesses;
    if (resident[access.page]) {
      ++result.hits;
      return;
    }
    if (!seen[access.page]) ++result.first_accesses;
    seen[access.page] = true;
    if (budget_pages == 0) return;
    if (used_pages == budget_pages) {
      const prefetch::PageNumber victim = policy.victim(access.step);
      resident[victim] = false;
      policy.on_evict(victim, access.step);
      ++result.evictions;
      --used_pages;
    }
    resident[access.page] = true;
    policy.on_insert(access.page, access.step);
    ++used_pages;
  };
  return for_each_access(trace, on_access).map([&] { return result; });
}

Result<std::vector<PagingRun>> page_all(const AccessTrace& trace,
                                        std::span<const prefetch::ChosenPolicy> policies,
                                        std::span<const uint64_t> budgets_pages,
                                        const std::function<void(size_t)>& progress) {
  for (const prefetch::ChosenPolicy& policy : policies) {
    if (auto checked = policy.check(trace.signals); !checked) {
      return tl::unexpected(checked.error());
    }
  }
  const auto future = future_for(trace, policies);
  if (!future) return tl::unexpected(future.error());
  std::vector<PagingRun> runs(policies.size() * budgets_pages.size());
  const auto run = [&](size_t i) -> Result<void> {
    const prefetch::ChosenPolicy& chosen = policies[i / budgets_pages.size()];
    prefetch::Setting setting;
    setting.budget_pages = budgets_pages[i % budgets_pages.size()];
    if (chosen.info->sees_future) setting.future = &**future;
    const auto policy = chosen.make(setting);
    const uint64_t begin_ns = boottime_clock().now_ns();
    const auto result = page(trace, setting.budget_pages, *policy);
    if (!result) return tl::unexpected(result.error());
    const double seconds = static_cast<double>(boottime_clock().now_ns() - begin_ns) / kSecond;
    runs[i] = {chosen.label, setting.budget_pages, *result, seconds};
    return {};
  };
  if (auto all = make_all_runs(runs.size(), run, progress); !all) {
    return tl::unexpected(all.error());
  }
  return runs;
}

}  // namespace farpage::paging
