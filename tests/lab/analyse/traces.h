#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lab/analyse/analysis.h"
#include "lab/paging/access_trace.h"

namespace farpage::analyse {

// The pages of each step.
using Steps = std::vector<std::vector<prefetch::PageNumber>>;

inline paging::AccessTrace trace_of(const Steps& steps) {
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    for (const prefetch::PageNumber page : steps[step]) {
      accesses.push_back({accesses.size(), step, page});
    }
  }
  return paging::trace_of_accesses("test", true, std::move(accesses));
}

// Accesses with signals, numbered as they come.
class SignalTrace {
 public:
  void add(uint64_t step, prefetch::PageNumber page, float mass, uint32_t head = 0,
           float score = 0) {
    prefetch::Access access = {accesses_.size(), step, page};
    access.head = head;
    access.mass = mass;
    access.score = score;
    accesses_.push_back(access);
  }

  paging::AccessTrace with(const std::vector<prefetch::Signal>& signals) const {
    auto trace = paging::trace_of_accesses("test", true, accesses_);
    for (const prefetch::Signal signal : signals) trace.signals.set(prefetch::index_of(signal));
    return trace;
  }

 private:
  std::vector<prefetch::Access> accesses_;
};

inline const Finding& finding_of(const Analysis& analysis, std::string_view name) {
  for (const Finding& finding : analysis.findings) {
    if (finding.name == name) return finding;
  }
  static const Finding none;
  return none;
}

// Of a figure that the finding does not have, −1.
inline Estimate figure_of(const Finding& finding, std::string_view key) {
  for (const Figure& figure : finding.figures) {
    if (figure.key == key) return figure.estimate;
  }
  return {-1, -1, -1};
}

}  // namespace farpage::analyse
