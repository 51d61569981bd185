#pragma once

#include "lab/paging/access_trace.h"

namespace farpage::analyse {

// The same accesses, with a mass that tells only how the signal orders a head's pages in a step: of
// n accesses the one with the least has weight 1, the next 2, and so on, equal ones the mean of
// theirs, over the sum of all. So rankings in different units can be compared. The trace outlives
// it.
paging::AccessTrace ranked_by(const paging::AccessTrace& trace, prefetch::Signal signal);

}  // namespace farpage::analyse
