#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/analyse/measures/finding.h"
#include "lab/analyse/measures/kept.h"
#include "lab/analyse/measures/labels.h"
#include "lab/analyse/measures/reuse.h"
#include "lab/paging/access_trace.h"

namespace farpage::analyse {

struct AnalysisOptions {
  uint64_t budget_pages = 0;  // of memories that are looked at; 0: a tenth of all pages
  uint64_t seed = 1;          // of the bootstrap
  std::optional<Milestones> milestones = {};
};

struct PageClassShare {
  uint64_t pages = 0;
  uint64_t uses = 0;        // steps with them
  uint64_t milestones = 0;  // pages that are labelled so
};

struct DistanceQuantile {
  uint64_t percent = 0;  // of the cases
  uint64_t pages = 0;    // other pages that were used between two uses of one, at most
};

struct Analysis {
  uint64_t steps = 0;
  uint64_t budget_pages = 0;
  uint64_t seed = 0;
  uint64_t parts = 0;  // that intervals resample
  bool parts_are_sequences = false;
  bool has_labels = false;
  std::vector<DistanceQuantile> distances;  // empty where nothing came back
  // Of the pages that a step demands, each once: the step before demanded them too, one farther
  // back did, none did.
  Estimate persistent;
  Estimate reentered;
  Estimate fresh;
  std::array<PageClassShare, kPageClassNames.size()> classes;  // by PageClass
  std::vector<Finding> findings;  // of all questions, also those that were not asked
  std::vector<Kept> kept;         // what B-H1 compares, of several budgets
};

// Memory grows with the trace's pages, with its longest steps and, where it has masses, by twelve
// bytes for each access and memory that belady manages, as that has to know what comes.
Result<Analysis> analyse(const paging::AccessTrace& trace, const AnalysisOptions& options);

// How often that reads the trace, at most.
uint64_t passes_over(const paging::AccessTrace& trace);

// For a person, for a program, for a browser.
std::string analysis_text(const paging::AccessTrace& trace, const Analysis& analysis);
std::string analysis_json(const paging::AccessTrace& trace, const Analysis& analysis);
std::string analysis_html(const paging::AccessTrace& trace, const Analysis& analysis);

}  // namespace farpage::analyse
