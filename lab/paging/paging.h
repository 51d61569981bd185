#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/paging/access_trace.h"
#include "prefetch/registry/registry.h"

namespace farpage::paging {

struct PagingResult {
  uint64_t accesses = 0;
  uint64_t hits = 0;
  uint64_t first_accesses = 0;  // which nothing but foresight could have made hits
  uint64_t evictions = 0;

  double hit_rate() const;
};

// Of a memory with demand paging (prefetch::PagedMemory).
Result<PagingResult> page(const AccessTrace& trace, uint64_t budget_pages,
                          prefetch::Policy& policy);

struct PagingRun {
  std::string policy;  // as it was named
  uint64_t budget_pages = 0;
  PagingResult result;
  double seconds = 0;  // on one thread

  double accesses_per_s() const;
};

// Each policy with each budget, as many at once as there are processors; in the order of the
// arguments. `progress` hears, from one thread at a time, how many are done. Fails where a policy
// needs a signal that the trace does not have, or the trace cannot be read.
Result<std::vector<PagingRun>> page_all(const AccessTrace& trace,
                                        std::span<const prefetch::ChosenPolicy> policies,
                                        std::span<const uint64_t> budgets_pages,
                                        const std::function<void(size_t)>& progress);

// For a person, for a spreadsheet, for a program.
std::string paging_table(const AccessTrace& trace, std::span<const PagingRun> runs);
std::string paging_csv(const AccessTrace& trace, std::span<const PagingRun> runs);
std::string paging_json(const AccessTrace& trace, std::span<const PagingRun> runs);
// A page that needs nothing else: hit rate against budget, a line for each policy, and the table.
std::string paging_html(const AccessTrace& trace, std::span<const PagingRun> runs);

// Writes report.json and report.html into a folder, which is made if it is not there.
Result<void> write_paging_report(const std::string& folder, const AccessTrace& trace,
                                 std::span<const PagingRun> runs);

}  // namespace farpage::paging
