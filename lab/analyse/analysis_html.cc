#include <fmt/format.h>

#include <string>

#include "lab/analyse/analysis.h"
#include "lab/paging/report_parts.h"
#include "report/chart.h"
#include "report/html_page.h"

namespace farpage::analyse {
namespace {

std::string heading(std::string_view text) {
  return fmt::format("<h2>{}</h2>\n", escape_html(std::string(text)));
}

std::vector<std::string> cells(const std::string& label, const Estimate& estimate) {
  return {label, fmt::format("{:.3f}", estimate.value),
          fmt::format("{:.3f} to {:.3f}", estimate.low, estimate.high)};
}

std::string demands_html(const Analysis& analysis) {
  return heading("What steps demand") +
         html_table({{"of the pages of a step", "share", "95% interval"},
                     cells("persistent: the step before demanded them", analysis.persistent),
                     cells("re-entered: a step farther back did", analysis.reentered),
                     cells("new", analysis.fresh)});
}

std::string classes_html(const Analysis& analysis) {
  std::vector<std::vector<std::string>> rows = {
      {"pages that are", "pages", "uses", "labelled milestones"}};
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    const PageClassShare& share = analysis.classes[i];
    rows.push_back({std::string(kPageClassNames[i]), std::to_string(share.pages),
                    std::to_string(share.uses),
                    analysis.has_labels ? std::to_string(share.milestones) : "-"});
  }
  return heading("What moves them") + html_table(rows);
}

std::string distances_html(const Analysis& analysis) {
  paging::RunChart chart = {"Reuse distance",
                            "other pages between two uses of one",
                            "uses, of those that are not the first",
                            LineChart::Scale::kShare,
                            {}};
  for (const DistanceQuantile& each : analysis.distances) {
    chart.runs.push_back(
        {"at most", static_cast<double>(each.pages), static_cast<double>(each.percent) / 100});
  }
  return chart.runs.empty() ? "" : draw(chart);
}

std::string finding_html(const Finding& finding) {
  std::string html =
      heading(finding.name) +
      fmt::format("<p>{}</p>\n<p class=\"note\">{}: {}.</p>\n", escape_html(finding.question),
                  kAnswerNames[static_cast<size_t>(finding.answer)], escape_html(finding.verdict));
  if (finding.figures.empty()) return html;
  std::vector<std::vector<std::string>> rows = {{"", "value", "95% interval"}};
  for (const Figure& figure : finding.figures) {
    rows.push_back(cells(figure.label, figure.estimate));
  }
  return html + html_table(rows);
}

std::string kept_html(const Analysis& analysis) {
  if (analysis.kept.empty()) return "";
  paging::RunChart chart = {"Hit rate against budget",
                            "pages that may be resident",
                            "accesses that were hits",
                            LineChart::Scale::kShare,
                            {}};
  for (const Kept& kept : analysis.kept) {
    chart.runs.push_back(
        {kept.policy, static_cast<double>(kept.budget_pages), kept.hit_rate(analysis.seed).value});
  }
  return draw(chart);
}

}  // namespace

std::string analysis_html(const paging::AccessTrace& trace, const Analysis& analysis) {
  std::string body = trace_html(trace) + demands_html(analysis) + classes_html(analysis) +
                     distances_html(analysis);
  for (const Finding& finding : analysis.findings) body += finding_html(finding);
  return html_page("Farpage analyse: how a trace's pages come back", body + kept_html(analysis));
}

}  // namespace farpage::analyse
