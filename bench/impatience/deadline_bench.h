#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "tier/client.h"

namespace farpage {

inline constexpr std::array<uint64_t, 3> kBenchDeadlinesNs = {kMillisecond, 5 * kMillisecond,
                                                              50 * kMillisecond};

struct DeadlineBenchOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t batch = 128;             // pages a fetch: many, so that the first deadline is short
  uint64_t pool_bytes = 64 * kMiB;  // of pages to draw from
  double seconds = 30;
  std::string name_space = "bench";

  Result<void> validate() const;
};

struct DeadlineBenchResult {
  bool interrupted = false;
  std::array<uint64_t, kBenchDeadlinesNs.size()> fetches = {};  // by their deadline
  uint64_t ready = 0;
  std::array<uint64_t, kReasons> recompute = {};  // by Reason
  uint64_t wrong_bytes = 0;                       // of ready pages, every byte of which is compared
  // Of the fetches whose last verdict was not seen before their deadline: by how long after it.
  std::vector<uint64_t> lateness_ns;
  Histogram delay_ns;  // the watchdog's, one sample after each of its naps
  uint64_t delay_most_ns = 0;
};

// Lateness beyond the machine's own: the fetches whose verdicts came later after their deadline
// than any thread of the process, as far as its watchdog knows, waited for a processor.
struct DeadlineJudgement {
  uint64_t late = 0;
  uint64_t slowest_ns = 0;  // the longest lateness
  bool measured = false;    // there were fetches, and a watchdog that watched

  bool holds() const { return measured && late == 0; }
};
DeadlineJudgement judge_deadlines(const DeadlineBenchResult& result);

// Fetches pages drawn at random, one fetch after the other, every other one hedged, with these
// deadlines in turn, while a watchdog watches. Goes on whatever the nodes do once they are filled;
// `filled` is told when that is done.
Result<DeadlineBenchResult> run_deadline_bench(Client& client, const DeadlineBenchOptions& options,
                                               const std::function<bool()>& interrupted,
                                               const std::function<void()>& filled);

struct DeadlineReport {
  const DeadlineBenchOptions& options;
  const DeadlineBenchResult& result;
  const Capabilities& capabilities;
  std::string version;
};
boost::json::object deadline_json(const DeadlineReport& report);
std::string deadline_table(const DeadlineReport& report);

}  // namespace farpage
