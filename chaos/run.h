#pragma once

#include <cstdint>
#include <vector>

#include "chaos/ledger.h"
#include "chaos/plan.h"
#include "sim/findings.h"

namespace farpage::chaos {

// The result of one run. `findings` is empty if everything held.
struct RunResult {
  std::vector<Finding> findings;
  KindCounts injected{};
  KindCounts caught{};
  uint64_t ready = 0;
  uint64_t recompute = 0;
  uint64_t held = 0;
  uint64_t hedged = 0;
  uint64_t hopeless = 0;   // fetches with less time than any read takes
  uint64_t cancelled = 0;  // fetches that were let go while they were under way
  uint64_t puts = 0;
  uint64_t puts_acknowledged = 0;
  uint64_t removes_acknowledged = 0;
  uint64_t pages_kept = 0;  // that had to be there at the end
  // Pages that went from one node of their set to another, with a holder alive throughout; and
  // those of them that are gone because one epoch followed another before the fills had ended:
  // KeptPages. Not a finding.
  uint64_t pages_handed_over = 0;
  uint64_t lost_to_fast_epochs = 0;
};

// Runs the plan on a cluster of its own, in virtual time, judges everything, and at last, with
// nothing disturbed any more, whether everything ends and works again.
RunResult run_plan(const Plan& plan);

}  // namespace farpage::chaos
