#include "lab/paging/report_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <filesystem>

#include "report/json.h"

namespace farpage::paging {
namespace {

// Apart enough to be told from each other by most people; after the last the first again.
constexpr std::array<const char*, 10> kColours = {"#3568b0", "#b3261e", "#2e7d32", "#b36b00",
                                                  "#6a3d9a", "#00838f", "#c2185b", "#5d4037",
                                                  "#455a64", "#9e9d24"};

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

void add_point(std::vector<Line>& lines, const std::string& label, Point point) {
  auto line = std::ranges::find(lines, label, &Line::label);
  if (line == lines.end()) {
    lines.push_back({label, "", {}});
    line = lines.end() - 1;
  }
  line->points.push_back(point);
}

std::string draw_with_legend(LineChart chart) {
  std::string legend = "<p>";
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    Line& line = chart.lines[i];
    line.colour = kColours[i % kColours.size()];
    std::ranges::sort(line.points, {}, &Point::x);
    legend += fmt::format("<span style=\"color:{}\">&#9632;</span> {}&emsp;", line.colour,
                          escape_html(line.label));
    line.label.clear();
  }
  return draw(chart) + legend + "</p>\n";
}

std::string html_table_row(const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += fmt::format("<td>{}</td>", escape_html(cell));
  return row + "</tr>\n";
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
