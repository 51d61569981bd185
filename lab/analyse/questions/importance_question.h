#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "lab/analyse/measures/finding.h"
#include "lab/analyse/measures/kept.h"
#include "lab/paging/access_trace.h"

namespace farpage::analyse {

struct ImportanceAnswer {
  Finding finding;
  std::vector<Kept> kept;  // of all policies and budgets that were asked
};

// B-H1: whether going by importance hits a fifth more than lru, and more so as the context grows.
Result<ImportanceAnswer> ask_importance(const paging::AccessTrace& trace, const Parts& parts,
                                        uint64_t budget_pages, uint64_t seed);

// B-H4: whether the importance that attention gives afterwards hits as much as what the engine
// ranks by itself.
Result<Finding> ask_post_hoc(const paging::AccessTrace& trace, const Parts& parts,
                             uint64_t budget_pages, uint64_t seed);

// How often both read the trace, at most.
uint64_t passes_of_importance(const paging::AccessTrace& trace);

}  // namespace farpage::analyse
