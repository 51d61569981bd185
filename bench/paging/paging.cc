#include "bench/paging/paging.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"

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
  std::optional<TraceFuture> future;
  for (const prefetch::ChosenPolicy& policy : policies) {
    if (auto checked = policy.check(trace.signals); !checked) {
      return tl::unexpected(checked.error());
    }
    if (!policy.info->sees_future || future) continue;
    auto known = TraceFuture::of(trace);
    if (!known) return tl::unexpected(known.error());
    future = std::move(*known);
  }
  std::vector<PagingRun> runs(policies.size() * budgets_pages.size());
  std::atomic<size_t> begun = 0;
  std::mutex mutex;
  size_t done = 0;
  std::optional<Error> failed;
  const auto work = [&] {
    for (size_t i = begun++; i < runs.size(); i = begun++) {
      const prefetch::ChosenPolicy& chosen = policies[i / budgets_pages.size()];
      const uint64_t budget_pages = budgets_pages[i % budgets_pages.size()];
      prefetch::Setting setting;
      setting.budget_pages = budget_pages;
      if (chosen.info->sees_future) setting.future = &*future;
      const auto policy = chosen.make(setting);
      const uint64_t begin_ns = boottime_clock().now_ns();
      const auto result = page(trace, budget_pages, *policy);
      const double seconds = static_cast<double>(boottime_clock().now_ns() - begin_ns) / kSecond;
      const std::lock_guard lock(mutex);
      if (result) {
        runs[i] = {chosen.label, budget_pages, *result, seconds};
      } else {
        failed = result.error();
      }
      progress(++done);
    }
  };
  std::vector<std::jthread> workers;
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::min(processors, runs.size()); ++i) workers.emplace_back(work);
  workers.clear();
  if (failed) return tl::unexpected(*failed);
  return runs;
}

}  // namespace farpage::paging
