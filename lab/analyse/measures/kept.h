#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/analyse/measures/bootstrap.h"
#include "lab/analyse/measures/parts.h"
#include "lab/paging/access_trace.h"

namespace farpage::analyse {

// Hits of a policy's memory on a trace.
struct Kept {
  std::string policy;
  uint64_t budget_pages = 0;
  // Of each part: hits, accesses, and the hits in the later half of the trace.
  std::vector<Sums<3>> hits;

  Estimate hit_rate(uint64_t seed) const;
};

// How much higher the one's hit rate is than so many times the other's, in shares of 1: a sign that
// needs no division by what may be nothing.
Estimate beyond_times(const Kept& one, double times, const Kept& other, uint64_t seed);
// How many times the other's hits; 0 where it has none.
Estimate times(const Kept& one, const Kept& other, uint64_t seed);

struct KeptRun {
  std::string policy;
  uint64_t budget_pages = 0;
};

// As many at once as there are processors.
Result<std::vector<Kept>> kept_by(const paging::AccessTrace& trace, const Parts& parts,
                                  const std::vector<KeptRun>& runs);

}  // namespace farpage::analyse
