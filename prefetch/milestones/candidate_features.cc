#include "prefetch/milestones/candidate_features.h"

#include <algorithm>

#include "prefetch/milestones/feature.h"

namespace farpage::prefetch {

CandidateFeatures features_of(const Candidates::Candidate& candidate, const ReturnWatch& watch,
                              const MarkedPages& marked) {
  const PageRecord& page = watch.records()[candidate.page];
  const PageRecord& trigger = watch.records()[candidate.trigger];
  const uint64_t turn = watch.records().turns(page.head);
  const uint32_t relations = candidate.relations;
  const uint32_t is_gone = relations & Candidates::kGone;
  const uint32_t heads = std::min<uint32_t>(candidate.same_block, 6);
  const auto since = heads == 0 ? 0 : static_cast<uint32_t>(watch.step() - candidate.block_step);
  const uint32_t age = magnitude(turn - page.last_turn);
  const uint32_t busy = magnitude(watch.triggers()) / 2;
  const uint32_t begun = magnitude(watch.segmenter().steps_since_begin());
  const uint32_t entropy = parts(page.entropy, 4);
  const uint32_t margin = parts(page.margin, 2);
  const auto written = static_cast<uint32_t>(page.phase);
  const auto now = static_cast<uint32_t>(watch.segmenter().phase());
  return {feature(1, 0),
          feature(2, relations, heads),
          feature(3, heads, since),
          feature(4, heads, since, busy),
          feature(5, heads, since, magnitude(trigger.last_gap) / 2),
          feature(6, entropy, margin, heads),
          feature(7, age, is_gone, page.head % kMostOfFeature),
          feature(8, magnitude(page.last_gap), age, is_gone),
          feature(9, magnitude(page.visits), heads),
          feature(10, begun, now, written),
          feature(11, mass_magnitude(page.mass), is_gone),
          feature(12, marked.contains(candidate.page) ? 1 : 0,
                  marked.contains(candidate.trigger) ? 1 : 0, relations)};
}

}  // namespace farpage::prefetch
