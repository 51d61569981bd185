#pragma once

#include "client/runner/submission.h"
#include "tier/stats/lane_counters.h"

namespace farpage {

// Counts the verdicts of a fetch that is about to be told of.
void count_told(const Submission& submission, LaneCounters& counters);

}  // namespace farpage
