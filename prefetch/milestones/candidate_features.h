#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "prefetch/milestones/candidates.h"
#include "prefetch/milestones/page_record.h"
#include "prefetch/milestones/segmenter.h"

namespace farpage::prefetch {

// What a classifier is told of a candidate: numbers that stand for what is true of it, one of each
// kind, counts and lengths by their order of magnitude.
using CandidateFeatures = std::array<uint32_t, 20>;

CandidateFeatures features_of(const Candidates::Candidate& candidate, const PageRecords& records,
                              const Segmenter& segmenter, uint64_t step);

}  // namespace farpage::prefetch
