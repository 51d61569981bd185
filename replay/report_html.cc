#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>

#include "replay/report.h"
#include "replay/report_rows.h"
#include "report/chart.h"
#include "report/html_page.h"
#include "report/json.h"

namespace farpage {
namespace {

// The histogram's bins are 1% wide; a picture has room for wider ones.
constexpr double kBarsPerDoubling = 8;

std::vector<Bar> latency_bars(const Histogram& nanoseconds) {
  const auto index_of = [](const HistogramBin& bin) {
    return std::floor(std::log2(std::sqrt(bin.lower * bin.upper)) * kBarsPerDoubling);
  };
  std::vector<Bar> bars;
  for (const HistogramBin& bin : nanoseconds.bins()) {
    const double index = index_of(bin);
    const double left_us = std::exp2(index / kBarsPerDoubling) / 1e3;
    if (bars.empty() || bars.back().left < left_us) {
      bars.push_back({left_us, std::exp2((index + 1) / kBarsPerDoubling) / 1e3, 0});
    }
    bars.back().value += static_cast<double>(bin.count);
  }
  return bars;
}

LogBarChart latency_chart(const ReplayResult& result) {
  LogBarChart chart = {"Distribution of fetch latency",
                       "time of one fetch, all its pages, in µs (logarithmic)",
                       "fetches",
                       latency_bars(result.fetch_ns),
                       {}};
  for (const auto& [name, q] :
       {std::pair("p50", 0.5), std::pair("p99", 0.99), std::pair("p99.9", 0.999)}) {
    const std::optional<double> ns = result.fetch_ns.supported_quantile(q);
    if (!ns) continue;
    const double us = *ns / 1e3;
    chart.marks.push_back({us, fmt::format("{} {:.{}f} µs", name, us, us < 100 ? 1 : 0)});
  }
  return chart;
}

std::vector<Mark> event_marks(const ReplayResult& result) {
  std::vector<Mark> marks;
  for (const ReplayEvent& event : result.events) {
    marks.push_back({static_cast<double>(event.request), event.what});
  }
  return marks;
}

LineChart latency_over_time(const ReplayResult& result) {
  Line median = {"median", 0, {}};
  Line tail = {"p99", 1, {}};
  for (const ReplayWindow& window : result.windows) {
    const auto x = static_cast<double>(window.last_request);
    median.points.push_back({x, window.fetch_p50_ns / 1e3});
    tail.points.push_back({x, window.fetch_p99_ns / 1e3});
  }
  return {"Fetch latency over time",
          "requests served",
          "time of one fetch in µs (logarithmic)",
          LineChart::Scale::kLog,
          {std::move(median), std::move(tail)},
          event_marks(result)};
}

LineChart hit_rate_chart(const ReplayResult& result) {
  const uint64_t requests = result.windows.empty() ? 0 : result.windows.front().last_request;
  Line window = {fmt::format("of {} requests at a time", requests), 0, {}};
  Line local = {"of these, held locally", 2, {}};
  Line cumulative = {"since the start", 1, {}};
  for (const HitRatePoint& point : hit_rates(result)) {
    const auto x = static_cast<double>(point.last_request);
    window.points.push_back({x, point.window});
    local.points.push_back({x, point.window_local});
    cumulative.points.push_back({x, point.cumulative});
  }
  LineChart chart = {"Hit rate over time",     "requests served", "pages that were not recomputed",
                     LineChart::Scale::kShare, {window},          event_marks(result)};
  if (result.local_hits > 0) chart.lines.push_back(local);
  chart.lines.push_back(cumulative);
  return chart;
}

}  // namespace

std::string replay_html(const ReplayReport& report) {
  const boost::json::object hardware = hardware_json();
  std::string html =
      fmt::format("<p>farpage {} on {}, {} cores</p>\n", escape_html(report.context.version),
                  escape_html(std::string(hardware.at("cpu").as_string())),
                  hardware.at("cores").to_number<unsigned>());
  if (report.trace.synthetic) {
    html +=
        "<p class=\"note\">This trace is synthetic: its hit rates say nothing about "
        "production.</p>\n";
  }
  if (report.result.interrupted) {
    html += "<p class=\"note\">The replay was interrupted before the trace's end.</p>\n";
  }
  html += "<table class=\"facts\">\n";
  for (const auto& [name, value] : report_rows(report)) {
    html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(name), escape_html(value));
  }
  html += "</table>\n";
  html += draw(latency_chart(report.result)) + draw(latency_over_time(report.result)) +
          draw(hit_rate_chart(report.result));
  return html_page("Farpage replay", html);
}

}  // namespace farpage
