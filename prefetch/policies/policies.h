#pragma once

#include "prefetch/importance/scorer.h"
#include "prefetch/parameters.h"

namespace farpage::prefetch {

// One file each, of the same name.
PolicyInfo attention();
PolicyInfo belady();
PolicyInfo cost_aware();
PolicyInfo fifo();
PolicyInfo h2o();
PolicyInfo heavy_hitter();
PolicyInfo importance();
PolicyInfo lazy();
PolicyInfo lfu();
PolicyInfo lru();
PolicyInfo milestone_pages();
PolicyInfo predictive();
PolicyInfo raas();
PolicyInfo random_choice();
PolicyInfo recency();
PolicyInfo regret_aware();
PolicyInfo reuse_rate();
PolicyInfo s3fifo();
PolicyInfo stability();
PolicyInfo windowed_recency();
PolicyInfo workload_aware();

// Those of them that say what pages are worth in any memory.
std::unique_ptr<DriftingScorer> cost_aware_scorer(const Setting& setting, Values values);
std::unique_ptr<SteadyScorer> heavy_hitter_scorer(const Setting& setting, Values values);
std::unique_ptr<SteadyScorer> predictive_scorer(const Setting& setting, Values values);
std::unique_ptr<DriftingScorer> regret_aware_scorer(const Setting& setting, Values values);
std::unique_ptr<SteadyScorer> windowed_recency_scorer(const Setting& setting, Values values);

}  // namespace farpage::prefetch
