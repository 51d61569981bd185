#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "chaos/ledger.h"
#include "chaos/plan.h"
#include "sim/findings.h"
#include "sim/sim_engine.h"

namespace farpage::chaos {

// The results of one run, or the sums of many; of each engine's counts, too.
struct RunCounts : SimEngine::Counts {
  uint64_t runs = 0;
  uint64_t runs_apart = 0;  // with nodes that keep headers and payloads apart
  uint64_t actions = 0;
  uint64_t pages_kept = 0;  // that had to be there at the end
  // Pages that went from one node of their set to another, with a holder alive throughout; and
  // those of them that are gone because one epoch followed another before the fills had ended:
  // KeptPages. Not a finding.
  uint64_t pages_handed_over = 0;
  uint64_t lost_to_fast_epochs = 0;
  uint64_t crashed = 0;  // runs that ended their process
  KindCounts injected{};
  KindCounts caught{};
  FindingCounts found{};

  RunCounts& operator+=(const RunCounts& more);
};

// Those that a report has in a row, and their names there.
struct NamedCount {
  std::string_view name;
  uint64_t RunCounts::*count;
};
inline constexpr std::array<NamedCount, 15> kRunCounts = {{
    {"runs", &RunCounts::runs},
    {"runs_apart", &RunCounts::runs_apart},
    {"actions", &RunCounts::actions},
    {"pages_ready", &RunCounts::ready},
    {"pages_recompute", &RunCounts::recompute},
    {"pages_held", &RunCounts::held},
    {"pages_hedged", &RunCounts::hedged},
    {"fetches_hopeless", &RunCounts::hopeless},
    {"fetches_cancelled", &RunCounts::cancelled},
    {"puts", &RunCounts::puts},
    {"puts_acknowledged", &RunCounts::puts_acknowledged},
    {"removes_acknowledged", &RunCounts::removes_acknowledged},
    {"pages_kept", &RunCounts::pages_kept},
    {"pages_handed_over", &RunCounts::pages_handed_over},
    {"lost_to_fast_epochs", &RunCounts::lost_to_fast_epochs},
}};

struct RunResult : RunCounts {
  std::vector<Finding> findings;  // empty if everything held
};

// Runs the plan on a cluster of its own, in virtual time, judges everything, and at last, with
// nothing disturbed any more, whether everything ends and works again.
RunResult run_plan(const Plan& plan);

}  // namespace farpage::chaos
