#include "bench/paging/paging.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace farpage::paging {

double PagingResult::hit_rate() const {
  return accesses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(accesses);
}

double PagingRun::accesses_per_s() const {
  return seconds > 0 ? static_cast<double>(result.accesses) / seconds : 0.0;
}

PagingResult page(const AccessTrace& trace, uint64_t budget_pages, prefetch::Policy& policy) {
  PagingResult result;
  std::vector<bool> resident(trace.pages);
  std::vector<bool> seen(trace.pages);
  uint64_t used_pages = 0;
  for (const prefetch::Access& access : trace.accesses) {
    policy.on_access(access);
    ++result.accesses;
    if (resident[access.page]) {
      ++result.hits;
      continue;
    }
    if (!seen[access.page]) ++result.first_accesses;
    seen[access.page] = true;
    if (budget_pages == 0) continue;
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
  }
  return result;
}

std::vector<PagingRun> page_all(const AccessTrace& trace,
                                std::span<const prefetch::ChosenPolicy> policies,
                                std::span<const uint64_t> budgets_pages,
                                const std::function<void(size_t)>& progress) {
  const bool looks_ahead =
      std::ranges::any_of(policies, [](const auto& policy) { return policy.info->sees_future; });
  const auto future = looks_ahead ? std::make_unique<TraceFuture>(trace) : nullptr;
  std::vector<PagingRun> runs(policies.size() * budgets_pages.size());
  std::atomic<size_t> begun = 0;
  std::mutex mutex;
  size_t done = 0;
  const auto work = [&] {
    for (size_t i = begun++; i < runs.size(); i = begun++) {
      const prefetch::ChosenPolicy& chosen = policies[i / budgets_pages.size()];
      const uint64_t budget_pages = budgets_pages[i % budgets_pages.size()];
      prefetch::Setting setting;
      setting.budget_pages = budget_pages;
      if (chosen.info->sees_future) setting.future = future.get();
      const auto policy = chosen.make(setting);
      const uint64_t begin_ns = boottime_clock().now_ns();
      const PagingResult result = page(trace, budget_pages, *policy);
      const double seconds = static_cast<double>(boottime_clock().now_ns() - begin_ns) / kSecond;
      runs[i] = {chosen.label, budget_pages, result, seconds};
      const std::lock_guard lock(mutex);
      progress(++done);
    }
  };
  std::vector<std::jthread> workers;
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::min(processors, runs.size()); ++i) workers.emplace_back(work);
  workers.clear();
  return runs;
}

}  // namespace farpage::paging
