#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lab/paging/access_trace.h"
#include "report/chart.h"

namespace farpage::paging {

// Parts that reports about a trace's runs share.

// A field of CSV, in quotes if it has to be (RFC 4180).
std::string csv_field(const std::string& text);

// "NAME (synthetic): N accesses to N pages", without an end of line.
std::string trace_line(const AccessTrace& trace);
// A line for each reason, and an empty one behind them; nothing where nothing was left out.
std::string left_out_lines(const AccessTrace& trace);
// All of them in one, without an end of line.
std::string left_out_line(const AccessTrace& trace);
// The trace and what was left out in HTML, with a warning where it is synthetic.
std::string trace_html(const AccessTrace& trace);

// The accesses that were left out, for reports in JSON.
boost::json::array left_out_json(const AccessTrace& trace);

struct ChartedRun {
  std::string label;
  double x = 0;  // its budget
  double y = 0;
  std::string clock = {};  // where runs of several clocks stand beside each other
};

// A figure of runs against their budgets.
struct RunChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  LineChart::Scale scale = LineChart::Scale::kShare;
  std::vector<ChartedRun> runs;
};
// With a legend below: lines, or bars where all runs have one budget. A chart leaves series that
// are too many for the eye to the table, and says so.
std::string draw(const RunChart& chart);

// Writes report.json and report.html into a folder, which is made if it is not there.
Result<void> write_report_folder(const std::string& folder, std::string_view json,
                                 std::string_view html);

}  // namespace farpage::paging
