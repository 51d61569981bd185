#include <fmt/format.h>

#include <string>

#include "lab/analyse/analysis.h"
#include "lab/paging/report_parts.h"
#include "report/chart.h"
#include "report/html_page.h"

namespace farpage::analyse {
namespace {

using paging::html_table_row;

std::string heading(std::string_view text) {
  return fmt::format("<h2>{}</h2>\n", escape_html(std::string(text)));
}

std::vector<std::string> cells(const std::string& label, const Estimate& estimate) {
  return {label, fmt::format("{:.3f}", estimate.value),
          fmt::format("{:.3f} to {:.3f}", estimate.low, estimate.high)};
}

std::string demands_html(const Analysis& analysis) {
  return heading("What steps demand") + "<table>\n" +
         html_table_row({"of the pages of a step", "share", "95% interval"}) +
         html_table_row(cells("persistent: the step before demanded them", analysis.persistent)) +
         html_table_row(cells("re-entered: a step farther back did", analysis.reentered)) +
         html_table_row(cells("new", analysis.fresh)) + "</table>\n";
}

std::string classes_html(const Analysis& analysis) {
  std::string table = html_table_row({"pages that are", "pages", "uses", "labelled milestones"});
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    const PageClassShare& share = analysis.classes[i];
    table += html_table_row({std::string(kPageClassNames[i]), std::to_string(share.pages),
                             std::to_string(share.uses),
                             analysis.has_labels ? std::to_string(share.milestones) : "-"});
  }
  return heading("What moves them") + "<table>\n" + table + "</table>\n";
}

std::string distances_html(const Analysis& analysis) {
  LineChart chart = {"Reuse distance",
                     "other pages between two uses of one",
                     "uses, of those that are not the first",
                     LineChart::Scale::kShare,
                     {},
                     {}};
  for (const DistanceQuantile& each : analysis.distances) {
    paging::add_point(chart.lines, "at most",
                      {static_cast<double>(each.pages), static_cast<double>(each.percent) / 100});
  }
  return chart.lines.empty() ? "" : paging::draw_with_legend(std::move(chart));
}

std::string finding_html(const Finding& finding) {
  std::string html =
      heading(finding.name) +
      fmt::format("<p>{}</p>\n<p class=\"note\">{}: {}.</p>\n", escape_html(finding.question),
                  kAnswerNames[static_cast<size_t>(finding.answer)], escape_html(finding.verdict));
  if (finding.figures.empty()) return html;
  std::string table = html_table_row({"", "value", "95% interval"});
  for (const Figure& figure : finding.figures) {
    table += html_table_row(cells(figure.label, figure.estimate));
  }
  return html + "<table>\n" + table + "</table>\n";
}

std::string kept_html(const Analysis& analysis) {
  if (analysis.kept.empty()) return "";
  LineChart chart = {"Hit rate against budget",
                     "pages that may be resident",
                     "accesses that were hits",
                     LineChart::Scale::kShare,
                     {},
                     {}};
  for (const Kept& kept : analysis.kept) {
    paging::add_point(chart.lines, kept.policy,
                      {static_cast<double>(kept.budget_pages), kept.hit_rate(analysis.seed).value});
  }
  return paging::draw_with_legend(std::move(chart));
}

}  // namespace

std::string analysis_html(const paging::AccessTrace& trace, const Analysis& analysis) {
  std::string body = trace_html(trace) + demands_html(analysis) + classes_html(analysis) +
                     distances_html(analysis);
  for (const Finding& finding : analysis.findings) body += finding_html(finding);
  return html_page("Farpage analyse: how a trace's pages come back", body + kept_html(analysis));
}

}  // namespace farpage::analyse
