#include "lab/kvhl/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "lab/kvhl/markov.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"
#include "prefetch/registry/registry.h"

namespace farpage::kvhl {
namespace {

using prefetch::PageNumber;

constexpr uint64_t kLeastFollowed = 2;

TierSpecs tiers_of(const Scenario& scenario) {
  TierSpecs tiers = {{
      {"tier0_gpu_fast", 128'000, 0.02, 0.02, 80'000},
      {"tier1_gpu_overflow", 256'000, 0.06, 0.06, 40'000},
      {"tier2_host_ram", 1'000'000, 0.4, 0.35, 8'000},
      {"tier3_nvme_like", 8'000'000, 2.5, 2.0, 2'000},
  }};
  for (TierSpec& tier : tiers) tier.capacity_bytes /= scenario.capacity_divisor;
  return tiers;
}

// Recency as a number, for tiers below the first, too; a page that is prefetched counts as
// accessed.
class LastTouch final : public prefetch::Scorer {
 public:
  void on_access(const prefetch::Access& access) override { touch(access.page, access.step); }
  void on_insert(PageNumber page, uint64_t step) override { touch(page, step); }
  double score(PageNumber page, uint64_t) const override {
    return static_cast<double>(last_step_[page]);
  }

 private:
  void touch(PageNumber page, uint64_t step) { last_step_.at(page) = static_cast<int64_t>(step); }
  prefetch::PerPage<int64_t> last_step_ = prefetch::PerPage<int64_t>(-1);
};

std::unique_ptr<prefetch::Scorer> make_scorer(std::string_view policy,
                                              const prefetch::Setting& setting) {
  const auto chosen = prefetch::choose_policy(policy);
  FARPAGE_CHECK(chosen.has_value());
  const std::vector<double>& values = chosen->values;
  if (policy == "windowed_recency") return prefetch::windowed_recency_scorer(setting, values);
  if (policy == "heavy_hitter") return prefetch::heavy_hitter_scorer(setting, values);
  if (policy == "cost_aware") return prefetch::cost_aware_scorer(setting, values);
  if (policy == "predictive") return prefetch::predictive_scorer(setting, values);
  if (policy == "regret_aware") return prefetch::regret_aware_scorer(setting, values);
  FARPAGE_CHECK(policy == "lru");
  return std::make_unique<LastTouch>();
}

// As Python writes it: the shortest digits that read back the same, and a point in whole numbers.
std::string repr(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// An object of JSON as a field of CSV.
std::string quoted_object(const std::vector<std::string>& members) {
  return fmt::format("\"{{{}}}\"", fmt::join(members, ", "));
}

}  // namespace

Result<RunResult> run(const Scenario& scenario, const Workload& workload, std::string_view policy) {
  const TierSpecs tiers = tiers_of(scenario);
  const uint64_t longest = std::ranges::max(workload.page_bytes);
  if (longest > tiers[0].capacity_bytes) {
    return fail(Code::kInvalid,
                fmt::format("{}: a page has {} bytes, and the nearest tier of {} only {}",
                            workload.name, longest, scenario.name, tiers[0].capacity_bytes));
  }
  prefetch::Setting setting;
  setting.page_bytes = [&](PageNumber page) { return workload.page_bytes[page]; };
  const auto scorer = make_scorer(policy, setting);
  Markov markov(kLeastFollowed);
  prefetch::Prefetcher* prefetcher =
      scenario.prefetches && policy == "predictive" ? &markov : nullptr;
  return Hierarchy(tiers, scenario.dequantisation_ms, workload, *scorer, prefetcher).run();
}

std::string csv_header() {
  return "scenario,workload,policy,quantization_scheme,prefetch_enabled,accesses,miss_count,"
         "eviction_count,avg_latency_ms,overall_hit_rate,bytes_moved,demand_bytes_moved,"
         "prefetch_bytes_moved,prefetch_requests,useful_prefetches,wasted_prefetches,"
         "prefetch_usefulness,tier_hit_rate,peak_footprint_bytes";
}

std::string csv_row(const Scenario& scenario, std::string_view workload, std::string_view policy,
                    const RunResult& result) {
  const TierSpecs tiers = tiers_of(scenario);
  std::vector<std::string> hit_rates;
  std::vector<std::string> peaks;
  for (size_t tier = 0; tier < kTiers; ++tier) {
    const std::string_view name = tiers[tier].name;
    peaks.push_back(fmt::format("\"\"{}\"\": {}", name, result.peak_bytes[tier]));
    if (result.hits[tier] == 0) continue;
    hit_rates.push_back(
        fmt::format("\"\"{}\"\": {}", name, repr(ratio(result.hits[tier], result.accesses))));
  }
  const auto accesses = static_cast<double>(std::max<uint64_t>(1, result.accesses));
  const double hit_rate = 1.0 - ratio(result.misses, result.accesses);
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", scenario.name, workload, policy,
      scenario.quantisation, scenario.prefetches ? "True" : "False", result.accesses, result.misses,
      result.evictions, repr(result.latency_ms / accesses), repr(hit_rate),
      result.demand_bytes + result.prefetch_bytes, result.demand_bytes, result.prefetch_bytes,
      result.prefetches, result.useful_prefetches, result.wasted_prefetches,
      repr(ratio(result.useful_prefetches, result.prefetches)), quoted_object(hit_rates),
      quoted_object(peaks));
}

Result<std::string> sweep(const std::string& folder,
                          const std::function<void(size_t, size_t)>& progress) {
  const auto names = workloads_in(folder);
  if (!names) return tl::unexpected(names.error());
  const size_t runs = kScenarios.size() * names->size() * kPolicies.size();
  size_t done = 0;
  std::string table = csv_header() + "\n";
  for (const Scenario& scenario : kScenarios) {
    for (const std::string& name : *names) {
      const auto workload = read_workload(folder, name, std::string(scenario.quantisation));
      if (!workload) return tl::unexpected(workload.error());
      for (const std::string_view policy : kPolicies) {
        const auto result = run(scenario, *workload, policy);
        if (!result) return tl::unexpected(result.error());
        table += csv_row(scenario, name, policy, *result) + "\n";
        progress(++done, runs);
      }
    }
  }
  return table;
}

}  // namespace farpage::kvhl
