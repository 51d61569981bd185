#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "lab/paging/paging.h"
#include "lab/paging/report_parts.h"
#include "report/json.h"

namespace farpage::paging {
std::string paging_table(const AccessTrace& trace, std::span<const PagingRun> runs) {
  const PagingResult& any = runs.front().result;
  const double share = 1.0 - static_cast<double>(any.first_accesses) /
                                 static_cast<double>(std::max<uint64_t>(1, any.accesses));
  std::string table = fmt::format("{}; of an endless memory {:.4f} would be hits\n\n{}",
                                  trace_line(trace), share, left_out_lines(trace));
  size_t width = std::string_view("policy").size();
  for (const PagingRun& run : runs) width = std::max(width, run.policy.size());
  table += fmt::format("{:<{}}  {:>12}  {:>8}  {:>12}  {:>12}  {:>12}\n", "policy", width,
                       "budget pages", "hit rate", "hits", "evictions", "accesses/s");
  for (const PagingRun& run : runs) {
    table += fmt::format("{:<{}}  {:>12}  {:>8.4f}  {:>12}  {:>12}  {:>12.3g}\n", run.policy, width,
                         run.budget_pages, run.result.hit_rate(), run.result.hits,
                         run.result.evictions, run.accesses_per_s());
  }
  return table;
}

std::string paging_csv(const AccessTrace& trace, std::span<const PagingRun> runs) {
  std::string csv =
      "trace,synthetic,policy,budget_pages,accesses,hits,first_accesses,evictions,"
      "hit_rate\n";
  for (const PagingRun& run : runs) {
    const PagingResult& result = run.result;
    csv += fmt::format("{},{},{},{},{},{},{},{},{}\n", csv_field(trace.name), trace.synthetic,
                       run.policy, run.budget_pages, result.accesses, result.hits,
                       result.first_accesses, result.evictions, result.hit_rate());
  }
  return csv;
}

std::string paging_json(const AccessTrace& trace, std::span<const PagingRun> runs) {
  boost::json::array rows;
  for (const PagingRun& run : runs) {
    const PagingResult& result = run.result;
    rows.push_back({{"policy", run.policy},
                    {"budget_pages", run.budget_pages},
                    {"accesses", result.accesses},
                    {"hits", result.hits},
                    {"first_accesses", result.first_accesses},
                    {"evictions", result.evictions},
                    {"hit_rate", result.hit_rate()},
                    {"accesses_per_s", run.accesses_per_s()}});
  }
  return format_json(boost::json::object{{"trace", trace.name},
                                         {"synthetic", trace.synthetic},
                                         {"pages", trace.pages},
                                         {"left_out", left_out_json(trace)},
                                         {"runs", std::move(rows)}});
}

Result<void> write_paging_report(const std::string& folder, const AccessTrace& trace,
                                 std::span<const PagingRun> runs) {
  return write_report_folder(folder, paging_json(trace, runs), paging_html(trace, runs));
}

}  // namespace farpage::paging
