#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "lab/kvhl/hierarchy.h"

namespace farpage::kvhl {

struct Scenario {
  std::string_view name;
  uint64_t capacity_divisor;
  std::string_view quantisation;
  double dequantisation_ms;
  bool prefetches;
};
inline constexpr std::array<Scenario, 5> kScenarios = {{
    {"small_fp16_prefetch", 2, "fp16", 0, true},
    {"small_fp16_no_prefetch", 2, "fp16", 0, false},
    {"small_int4_no_prefetch", 2, "int4", 0.03, false},
    {"base_fp8_prefetch", 1, "fp8", 0.01, true},
    {"constrained_fp16_prefetch", 4, "fp16", 0, true},
}};

inline constexpr std::array<std::string_view, 6> kPolicies = {
    "lru", "windowed_recency", "heavy_hitter", "cost_aware", "predictive", "regret_aware",
};

// Refuses a workload with a page that no tier of the scenario would hold.
Result<RunResult> run(const Scenario& scenario, const Workload& workload, std::string_view policy);

// The header and the row that KV-Hierarchy-Lab writes, without line ends.
std::string csv_header();
std::string csv_row(const Scenario& scenario, std::string_view workload, std::string_view policy,
                    const RunResult& result);

// Every scenario with every workload of the folder and every policy: the whole table. `progress`
// hears how many runs of how many are done.
Result<std::string> sweep(const std::string& folder,
                          const std::function<void(size_t, size_t)>& progress);

}  // namespace farpage::kvhl
