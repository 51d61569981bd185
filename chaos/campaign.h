#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "chaos/plan.h"
#include "chaos/run.h"

namespace farpage::chaos {

struct CampaignOptions {
  uint64_t seed = 1;
  uint64_t seeds = 1'000;
  uint64_t jobs = 1;  // processes
  bool until_first_failure = false;
  PlanOptions plan;

  Result<void> validate() const;
};

inline constexpr uint64_t kManyTimes = 1'000;

struct Failure {
  uint64_t seed = 0;
  std::string what;               // the first finding of the shortest plan
  std::vector<std::string> plan;  // which that is
};

struct CampaignResult {
  CampaignOptions options;
  RunCounts counts;
  std::vector<uint64_t> failed_seeds;  // the lowest ones
  std::optional<Failure> first;        // of the lowest seed that failed
  double seconds = 0;

  bool holds() const { return failed_seeds.empty(); }
  // Kinds that were injected kManyTimes or more and not caught once: either they do nothing, or no
  // run meets them, and the campaign's word on them is worth nothing.
  std::vector<std::string_view> never_caught() const;
};

// Every run is judged in a process of its own kind, so that one that ends its process is a failure
// like others. Forks: call it before the process has any other thread. `progress`: how many runs
// are done, now and then.
CampaignResult run_campaign(const CampaignOptions& options,
                            const std::function<void(uint64_t)>& progress);

boost::json::object campaign_json(const CampaignResult& result, const std::string& version);
std::string campaign_table(const CampaignResult& result);

}  // namespace farpage::chaos
