#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "bench/chart.h"
#include "bench/html_page.h"
#include "bench/paging/paging.h"

namespace farpage::paging {
namespace {

// Apart enough to be told from each other by most people; after the last the first again.
constexpr std::array<const char*, 10> kColours = {"#3568b0", "#b3261e", "#2e7d32", "#b36b00",
                                                  "#6a3d9a", "#00838f", "#c2185b", "#5d4037",
                                                  "#455a64", "#9e9d24"};

std::vector<Line> lines_of(std::span<const PagingRun> runs) {
  std::vector<Line> lines;
  for (const PagingRun& run : runs) {
    auto line = std::ranges::find(lines, run.policy, &Line::label);
    if (line == lines.end()) {
      lines.push_back({run.policy, kColours[lines.size() % kColours.size()], {}});
      line = lines.end() - 1;
    }
    line->points.push_back({static_cast<double>(run.budget_pages), run.result.hit_rate()});
  }
  for (Line& line : lines) std::ranges::sort(line.points, {}, &Point::x);
  return lines;
}

}  // namespace

std::string paging_html(const AccessTrace& trace, std::span<const PagingRun> runs) {
  std::string body = fmt::format("<p>{}: {} accesses to {} pages</p>\n", escape_html(trace.name),
                                 trace.accesses, trace.pages);
  if (trace.synthetic) {
    body +=
        "<p class=\"note\">This trace is synthetic: its hit rates say nothing about "
        "production.</p>\n";
  }
  for (const Skipped& skipped : trace.skipped) {
    body += fmt::format("<p class=\"note\">Left out: {} accesses, {}.</p>\n", skipped.accesses,
                        escape_html(skipped.reason));
  }
  LineChart chart = {"Hit rate against budget",
                     "pages that may be resident",
                     "accesses that were hits",
                     LineChart::Scale::kShare,
                     lines_of(runs),
                     {}};
  std::string legend = "<p>";
  for (Line& line : chart.lines) {
    legend += fmt::format("<span style=\"color:{}\">&#9632;</span> {}&emsp;", line.colour,
                          escape_html(line.label));
    line.label.clear();
  }
  body += draw(chart) + legend + "</p>\n<table>\n<tr>";
  for (const std::string_view name :
       {"policy", "budget (pages)", "hit rate", "hits", "first accesses", "evictions"}) {
    body += fmt::format("<td>{}</td>", name);
  }
  body += "</tr>\n";
  for (const PagingRun& run : runs) {
    const PagingResult& result = run.result;
    body += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.4f}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape_html(run.policy), run.budget_pages, result.hit_rate(), result.hits,
        result.first_accesses, result.evictions);
  }
  return html_page("Farpage replay: what policies keep", body + "</table>\n");
}

}  // namespace farpage::paging
