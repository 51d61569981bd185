#include <fmt/format.h>

#include <vector>

#include "lab/paging/paging.h"
#include "lab/paging/report_parts.h"
#include "report/chart.h"
#include "report/html_page.h"

namespace farpage::paging {

std::string paging_html(const AccessTrace& trace, std::span<const PagingRun> runs) {
  RunChart chart = {"Hit rate against budget",
                    "pages that may be resident",
                    "accesses that were hits",
                    LineChart::Scale::kShare,
                    {}};
  std::vector<std::vector<std::string>> rows = {
      {"policy", "budget (pages)", "hit rate", "hits", "first accesses", "evictions"}};
  for (const PagingRun& run : runs) {
    const PagingResult& result = run.result;
    chart.runs.push_back({run.policy, static_cast<double>(run.budget_pages), result.hit_rate()});
    rows.push_back({run.policy, std::to_string(run.budget_pages),
                    fmt::format("{:.4f}", result.hit_rate()), std::to_string(result.hits),
                    std::to_string(result.first_accesses), std::to_string(result.evictions)});
  }
  return html_page("Farpage policies: what they keep",
                   trace_html(trace) + draw(chart) + html_table(rows));
}

}  // namespace farpage::paging
