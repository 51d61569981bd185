#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "cli/lab/policy_choice.h"
#include "cli/lab/result_files.h"
#include "lab/vtime/timed_replay.h"

namespace CLI {
class App;
}

namespace farpage {

// Options of both commands that replay accesses in time: `prefetch`, in virtual time, and `live`.
struct TimedArguments {
  PolicyArguments chosen;
  std::vector<std::string> prefetchers = {"none"};
  uint64_t page_bytes = 64 * kKiB;
  uint64_t compute_us = 20'000;
  uint64_t prefetch_pages = vtime::TimedOptions().prefetch_pages;
  ResultFiles files;

  void add_to(CLI::App& command);
  // Without tiers: those of the command.
  vtime::TimedOptions options() const;
};

// Replays the plan in virtual time.
Result<std::vector<vtime::TimedRun>> run_in_virtual_time(const paging::AccessTrace& trace,
                                                         const vtime::TimedOptions& options,
                                                         const vtime::TimedPlan& plan);
Result<void> write_timed(const ResultFiles& files, const paging::AccessTrace& trace,
                         const vtime::TimedOptions& options,
                         const std::vector<vtime::TimedRun>& runs);

// Tells the lists, where that was asked; otherwise makes the plan, loads the trace and runs.
// Returns the exit code.
using RunTimed =
    std::function<Result<void>(const paging::AccessTrace& trace, const vtime::TimedOptions& options,
                               const vtime::TimedPlan& plan)>;
int run_timed(const TimedArguments& arguments, const Result<vtime::TimedOptions>& options,
              const std::vector<std::string>& placements, const RunTimed& run);

}  // namespace farpage
