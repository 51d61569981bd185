#include "lab/analyse/measures/kept.h"

#include <optional>
#include <utility>

#include "lab/paging/all_runs.h"
#include "prefetch/importance/token_counter.h"
#include "prefetch/paged_memory.h"
#include "prefetch/registry/registry.h"

namespace farpage::analyse {
namespace {

Result<std::vector<Sums<3>>> hits_of(const paging::AccessTrace& trace, const Parts& parts,
                                     const prefetch::ChosenPolicy& chosen,
                                     const prefetch::Setting& setting) {
  const auto policy = chosen.make(setting);
  prefetch::PagedMemory memory(setting.budget_pages, *policy);
  std::vector<Sums<3>> hits(parts.count());
  prefetch::TokenCounter counter(trace.layout);
  const auto use = [&](prefetch::Access access) {
    const uint64_t step = counter.index_of(access);
    Sums<3>& part = hits[parts.of(access, step)];
    access.step = step;
    const double hit = memory.access(access) ? 1 : 0;
    part[0] += hit;
    part[1] += 1;
    if (2 * step >= parts.steps()) part[2] += hit;
  };
  return for_each_access(trace, use).map([&] { return hits; });
}

// Hits of both, and accesses, of each part.
std::vector<Sums<3>> pairs(const Kept& one, const Kept& other) {
  std::vector<Sums<3>> pairs;
  for (size_t part = 0; part < one.hits.size(); ++part) {
    pairs.push_back({one.hits[part][0], other.hits[part][0], one.hits[part][1]});
  }
  return pairs;
}

}  // namespace

Estimate Kept::hit_rate(uint64_t seed) const {
  return estimate(std::span<const Sums<3>>(hits), seed,
                  [](const Sums<3>& sums) { return ratio(sums[0], sums[1]); });
}

Estimate beyond_times(const Kept& one, double times, const Kept& other, uint64_t seed) {
  return estimate(std::span<const Sums<3>>(pairs(one, other)), seed,
                  [&](const Sums<3>& sums) { return ratio(sums[0] - times * sums[1], sums[2]); });
}

Estimate times(const Kept& one, const Kept& other, uint64_t seed) {
  return estimate(std::span<const Sums<3>>(pairs(one, other)), seed,
                  [](const Sums<3>& sums) { return ratio(sums[0], sums[1]); });
}

Result<std::vector<Kept>> kept_by(const paging::AccessTrace& trace, const Parts& parts,
                                  const std::vector<KeptRun>& runs) {
  std::vector<prefetch::ChosenPolicy> policies;
  for (const KeptRun& run : runs) {
    auto chosen = prefetch::choose_policy(run.policy);
    if (!chosen) return tl::unexpected(chosen.error());
    policies.push_back(std::move(*chosen));
  }
  const auto future = paging::future_for(trace, std::span<const prefetch::ChosenPolicy>(policies));
  if (!future) return tl::unexpected(future.error());
  std::vector<Kept> kept(runs.size());
  const auto make = [&](size_t i) {
    prefetch::Setting setting;
    setting.budget_pages = runs[i].budget_pages;
    setting.layout = trace.layout;
    if (policies[i].info->sees_future) setting.future = &**future;
    return hits_of(trace, parts, policies[i], setting).map([&](std::vector<Sums<3>> hits) {
      kept[i] = {runs[i].policy, runs[i].budget_pages, std::move(hits)};
    });
  };
  return paging::make_all_runs(runs.size(), make, [](size_t) {}).map([&] { return kept; });
}

}  // namespace farpage::analyse
