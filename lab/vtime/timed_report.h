#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "lab/vtime/timed_replay.h"

namespace farpage::vtime {

// A run beside those of the same policy and budget; nothing where the other is not among them, or
// has nothing to divide by.
struct Beside {
  std::optional<double> stall_cut;         // 1 − stall / stall with `none`
  std::optional<double> normalised_stall;  // (none − x) / (none − oracle): 1 is the oracle's
  std::optional<double> speedup;           // steps a second, over those with `none`
  std::optional<double> lift;              // accuracy, over that of `random`
};
Beside beside(const TimedRun& run, std::span<const TimedRun> runs);

struct TimedReport {
  const paging::AccessTrace& trace;
  const TimedOptions& options;
  std::span<const TimedRun> runs;
};

// For a person, for a spreadsheet, for a program.
std::string timed_table(const TimedReport& report);
std::string timed_csv(const TimedReport& report);
std::string timed_json(const TimedReport& report);
// A page that needs nothing else: stalls against budget, a line for each policy and prefetcher, and
// the table.
std::string timed_html(const TimedReport& report);

// Writes report.json and report.html into a folder, which is made if it is not there.
Result<void> write_timed_report(const std::string& folder, const TimedReport& report);

}  // namespace farpage::vtime
