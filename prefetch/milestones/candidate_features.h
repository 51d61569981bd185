#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "prefetch/milestones/marked_pages.h"
#include "prefetch/milestones/return_watch.h"

namespace farpage::prefetch {

// A candidate's features for a classifier: numbers that stand for its properties, one of each kind,
// counts and lengths by their order of magnitude.
using CandidateFeatures = std::array<uint32_t, 12>;

CandidateFeatures features_of(const Candidates::Candidate& candidate, const ReturnWatch& watch,
                              const MarkedPages& marked);

}  // namespace farpage::prefetch
