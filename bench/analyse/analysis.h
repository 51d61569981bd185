#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/analyse/bootstrap.h"
#include "bench/paging/access_trace.h"

namespace farpage::analyse {

struct AnalysisOptions {
  uint64_t budget_pages = 0;  // of the most recent; 0: a tenth of all
  uint64_t seed = 1;          // of the bootstrap
};

// Steps ahead in which a page has to be demanded for recency to have foretold it.
inline constexpr uint64_t kAheadSteps = 5;
// Parts of consecutive steps that stand for sequences, where a trace does not tell of any.
inline constexpr uint64_t kParts = 50;

// What moves a page. docs/analyse.md has the rules.
enum class PageClass : uint8_t { kOneShot, kPersistent, kRecency, kMilestone };
inline constexpr std::array<std::string_view, 4> kPageClassNames = {
    "one-shot", "persistent", "recency-driven", "milestone-driven"};

struct PageClassShare {
  uint64_t pages = 0;
  uint64_t accesses = 0;
};

struct Analysis {
  uint64_t steps = 0;
  uint64_t budget_pages = 0;
  uint64_t seed = 0;
  // How many other pages were used between two uses of one, for as many uses in each case.
  std::vector<uint64_t> reuse_distance_quantiles;  // of kQuantiles; empty where nothing came back
  // Of the pages that a step demands, each once.
  Estimate persistent;                                         // the step before demanded them too
  Estimate reentered;                                          // one farther back did
  Estimate fresh;                                              // none did
  std::array<PageClassShare, kPageClassNames.size()> classes;  // by PageClass
  // H1: of what the next steps demand and what was there, the share that is among the most recent.
  Estimate recall;
  Estimate recall_of_reentries;         // without what this step demands
  Estimate recall_of_reentries_random;  // if as many others were taken for the most recent
};

inline constexpr std::array<double, 5> kQuantiles = {0.1, 0.25, 0.5, 0.75, 0.9};

// Reads the trace twice. Memory grows with its pages and with the longest steps.
Result<Analysis> analyse(const paging::AccessTrace& trace, const AnalysisOptions& options);

// What H1's figures say, in a sentence, by their intervals: that recency foretells re-entries
// (above 80%), that it does not (below 30%), or that the trace leaves it open.
std::string verdict_on_recency(const Analysis& analysis);

std::string analysis_text(const paging::AccessTrace& trace, const Analysis& analysis);
std::string analysis_json(const paging::AccessTrace& trace, const Analysis& analysis);

}  // namespace farpage::analyse
