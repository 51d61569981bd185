#include <fmt/format.h>

#include <vector>

#include "lab/paging/paging.h"
#include "lab/paging/report_parts.h"
#include "report/chart.h"
#include "report/html_page.h"

namespace farpage::paging {

std::string paging_html(const AccessTrace& trace, std::span<const PagingRun> runs) {
  LineChart chart = {"Hit rate against budget",
                     "pages that may be resident",
                     "accesses that were hits",
                     LineChart::Scale::kShare,
                     {},
                     {}};
  std::string table = html_table_row(
      {"policy", "budget (pages)", "hit rate", "hits", "first accesses", "evictions"});
  for (const PagingRun& run : runs) {
    const PagingResult& result = run.result;
    add_point(chart.lines, run.policy, {static_cast<double>(run.budget_pages), result.hit_rate()});
    table +=
        html_table_row({run.policy, std::to_string(run.budget_pages),
                        fmt::format("{:.4f}", result.hit_rate()), std::to_string(result.hits),
                        std::to_string(result.first_accesses), std::to_string(result.evictions)});
  }
  return html_page(
      "Farpage replay: what policies keep",
      trace_html(trace) + draw_with_legend(std::move(chart)) + "<table>\n" + table + "</table>\n");
}

}  // namespace farpage::paging
