#include "lab/paging/report_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <filesystem>
#include <set>
#include <utility>

#include "report/json.h"

namespace farpage::paging {
namespace {

constexpr size_t kMostBars = 24;

std::string legend_of(const std::vector<std::string>& names) {
  std::string legend = "<p>";
  for (size_t i = 0; i < names.size(); ++i) {
    legend += fmt::format("<span class=\"s{}\">&#9632;</span> {}&emsp;", i, escape_html(names[i]));
  }
  return legend + "</p>\n";
}

std::string left_to_the_table(size_t count) {
  return count == 0 ? "" : fmt::format("<p>{} more are in the table.</p>\n", count);
}

// One bar a run. Where runs have several clocks, each has a colour.
std::string draw_bars(const RunChart& chart) {
  NamedBarChart bars = {chart.title, chart.y_label, chart.scale == LineChart::Scale::kShare, {}};
  std::vector<std::string> clocks;
  for (const ChartedRun& run : chart.runs) {
    const auto found = std::ranges::find(clocks, run.clock);
    const auto series = static_cast<size_t>(found - clocks.begin());
    if (found == clocks.end()) clocks.push_back(run.clock);
    if (bars.bars.size() < kMostBars) bars.bars.push_back({run.label, series, run.y});
  }
  return draw(bars) + (clocks.size() > 1 ? legend_of(clocks) : "") +
         left_to_the_table(chart.runs.size() - bars.bars.size());
}

// A line for each label, of which a clock is part.
std::string draw_lines(const RunChart& chart) {
  LineChart lines = {chart.title, chart.x_label, chart.y_label, chart.scale, {}, {}};
  std::vector<std::string> names;
  for (const ChartedRun& run : chart.runs) {
    const std::string name = run.clock.empty() ? run.label : run.label + ", " + run.clock;
    auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      names.push_back(name);
      found = names.end() - 1;
      if (names.size() <= kMostSeries) lines.lines.push_back({"", names.size() - 1, {}});
    }
    const auto series = static_cast<size_t>(found - names.begin());
    if (series < kMostSeries) lines.lines[series].points.push_back({run.x, run.y});
  }
  for (Line& line : lines.lines) std::ranges::sort(line.points, {}, &Point::x);
  const size_t left_out = names.size() - lines.lines.size();
  names.resize(lines.lines.size());
  return draw(lines) + legend_of(names) + left_to_the_table(left_out);
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) quoted += each == '"' ? std::string("\"\"") : std::string(1, each);
  return quoted + '"';
}

std::string trace_line(const AccessTrace& trace) {
  return fmt::format("{}{}: {} accesses to {} pages", trace.name,
                     trace.synthetic ? " (synthetic)" : "", trace.accesses, trace.pages);
}

std::string left_out_lines(const AccessTrace& trace) {
  std::string lines;
  for (const Skipped& skipped : trace.skipped) {
    lines += fmt::format("left out: {} accesses, {}\n", skipped.accesses, skipped.reason);
  }
  return lines.empty() ? lines : lines + '\n';
}

std::string left_out_line(const AccessTrace& trace) {
  std::vector<std::string> parts;
  for (const Skipped& skipped : trace.skipped) {
    parts.push_back(fmt::format("{} accesses, {}", skipped.accesses, skipped.reason));
  }
  return parts.empty() ? "" : fmt::format("left out: {}", fmt::join(parts, "; "));
}

std::string trace_html(const AccessTrace& trace) {
  std::string html = fmt::format("<p>{}: {} accesses to {} pages</p>\n", escape_html(trace.name),
                                 trace.accesses, trace.pages);
  if (trace.synthetic) {
    html +=
        "<p class=\"note\">This trace is synthetic: its figures say nothing about "
        "production.</p>\n";
  }
  for (const Skipped& skipped : trace.skipped) {
    html += fmt::format("<p class=\"note\">Left out: {} accesses, {}.</p>\n", skipped.accesses,
                        escape_html(skipped.reason));
  }
  return html;
}

boost::json::array left_out_json(const AccessTrace& trace) {
  boost::json::array left_out;
  for (const Skipped& skipped : trace.skipped) {
    left_out.push_back({{"reason", skipped.reason}, {"accesses", skipped.accesses}});
  }
  return left_out;
}

std::string draw(const RunChart& chart) {
  // A series with several points at one place is a line, though an upright one.
  std::set<std::pair<std::string, std::string>> labels;
  const bool is_of_one_budget = std::ranges::all_of(chart.runs, [&](const ChartedRun& run) {
    return run.x == chart.runs.front().x && labels.emplace(run.label, run.clock).second;
  });
  return is_of_one_budget ? draw_bars(chart) : draw_lines(chart);
}

Result<void> write_report_folder(const std::string& folder, std::string_view json,
                                 std::string_view html) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail_errno(error.value(), "cannot make the folder " + folder);
  return write_text(folder + "/report.json", std::string(json)).and_then([&] {
    return write_text(folder + "/report.html", std::string(html));
  });
}

}  // namespace farpage::paging
