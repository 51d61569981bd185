#include "lab/paging/paging.h"

#include <optional>

#include "base/clock.h"
#include "lab/paging/all_runs.h"
#include "prefetch/paged_memory.h"
#include "prefetch/registry/registry.h"

namespace farpage::paging {

double PagingResult::hit_rate() const {
  return accesses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(accesses);
}

double PagingRun::accesses_per_s() const {
  return seconds > 0 ? static_cast<double>(result.accesses) / seconds : 0.0;
}

Result<PagingResult> page(const AccessTrace& trace, uint64_t budget_pages,
                          prefetch::Policy& policy) {
  prefetch::PagedMemory memory(budget_pages, policy);
  PagingResult result;
  std::vector<bool> seen(trace.pages);
  const auto on_access = [&](const prefetch::Access& access) {
    ++result.accesses;
    if (memory.access(access)) {
      ++result.hits;
    } else if (!seen[access.page]) {
      ++result.first_accesses;
      seen[access.page] = true;
    }
  };
  return for_each_access(trace, on_access).map([&] {
    result.evictions = memory.evictions();
    return result;
  });
}

Result<std::vector<PagingRun>> page_all(const AccessTrace& trace,
                                        std::span<const prefetch::ChosenPolicy> policies,
                                        std::span<const uint64_t> budgets_pages,
                                        const std::function<void(size_t)>& progress) {
  for (const prefetch::ChosenPolicy& policy : policies) {
    if (auto checked = policy.check(trace.signals, trace.layout); !checked) {
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
    setting.layout = trace.layout;
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
