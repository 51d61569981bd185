#include "prefetch/policies/policies.h"

namespace farpage::prefetch {

// KV-Hierarchy-Lab's, which is its heavy_hitter with another weight beside a prefetcher of its own
// (markov).
std::unique_ptr<SteadyScorer> predictive_scorer(const Setting& setting, Values values) {
  return heavy_hitter_scorer(setting, values);
}

PolicyInfo predictive() {
  return {.name = "predictive",
          .what = "like heavy_hitter, with recency worth more; meant to stand beside markov",
          .parameters = {{"weight", "of an access, in steps", 100, 0, 1e9}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return evict_by(predictive_scorer(setting, values));
          }};
}

}  // namespace farpage::prefetch
