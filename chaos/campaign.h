#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "chaos/ledger.h"
#include "chaos/plan.h"
#include "sim/findings.h"

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

// The sums of many runs.
struct CampaignCounts {
  uint64_t runs = 0;
  uint64_t runs_apart = 0;  // with nodes that keep headers and payloads apart
  uint64_t actions = 0;
  uint64_t ready = 0;
  uint64_t recompute = 0;
  uint64_t held = 0;
  uint64_t hedged = 0;
  uint64_t hopeless = 0;   // fetches with less time than any read takes
  uint64_t cancelled = 0;  // fetches that were let go while they were under way
  uint64_t puts = 0;
  uint64_t puts_acknowledged = 0;
  uint64_t removes_acknowledged = 0;
  uint64_t pages_kept = 0;
  uint64_t pages_handed_over = 0;
  uint64_t lost_to_fast_epochs = 0;
  uint64_t crashed = 0;  // runs that ended their process
  KindCounts injected{};
  KindCounts caught{};
  std::array<uint64_t, kFindingKinds> findings{};
};

struct Failure {
  uint64_t seed = 0;
  std::string what;               // the first finding of the shortest plan
  std::vector<std::string> plan;  // which that is
};

struct CampaignResult {
  CampaignOptions options;
  CampaignCounts counts;
  std::vector<uint64_t> failed_seeds;  // the lowest ones
  std::optional<Failure> first;        // of the lowest seed that failed
  double seconds = 0;

  bool holds() const { return failed_seeds.empty(); }
  // Kinds that were injected kManyTimes or more and not caught once: either they do nothing, or no
  // run meets them, and the campaign's word on them is worth nothing.
  std::vector<Kind> never_caught() const;
};

// Every run is judged in a process of its own kind, so that one that ends its process is a failure
// like others. Forks: call it before the process has any other thread. `progress`: how many runs
// are done, now and then.
CampaignResult run_campaign(const CampaignOptions& options,
                            const std::function<void(uint64_t)>& progress);

boost::json::object campaign_json(const CampaignResult& result, const std::string& version);
std::string campaign_table(const CampaignResult& result);

}  // namespace farpage::chaos
