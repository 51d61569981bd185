#include "replay/report.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>

#include "replay/report_rows.h"
#include "report/json.h"
#include "report/latency.h"
#include "report/path_report.h"
#include "report/verdicts_json.h"

namespace farpage {
namespace {

namespace json = boost::json;

json::object puts_json(const ReplayResult& result) {
  json::object refused;
  uint64_t not_acknowledged = 0;
  for (size_t i = 1; i < result.puts.size(); ++i) {
    if (result.puts[i] == 0) continue;
    not_acknowledged += result.puts[i];
    refused[code_name(static_cast<Code>(i))] = result.puts[i];
  }
  return {{"acknowledged", result.puts[0]},
          {"not_acknowledged", not_acknowledged},
          {"not_acknowledged_by_reason", refused}};
}

json::array hit_rate_json(const ReplayResult& result) {
  json::array points;
  for (const HitRatePoint& point : hit_rates(result)) {
    points.push_back(json::object{{"request", point.last_request},
                                  {"window", point.window},
                                  {"cumulative", point.cumulative},
                                  {"window_local", point.window_local}});
  }
  return points;
}

json::array latency_over_time_json(const ReplayResult& result) {
  json::array points;
  for (const ReplayWindow& window : result.windows) {
    points.push_back(json::object{{"request", window.last_request},
                                  {"p50_us", window.fetch_p50_ns / 1e3},
                                  {"p99_us", window.fetch_p99_ns / 1e3}});
  }
  return points;
}

json::array events_json(const ReplayResult& result) {
  json::array events;
  for (const ReplayEvent& event : result.events) {
    events.push_back(json::object{{"request", event.request}, {"what", event.what}});
  }
  return events;
}

json::array bins_json(const Histogram& nanoseconds) {
  json::array bins;
  for (const HistogramBin& bin : nanoseconds.bins()) {
    bins.push_back(json::array{bin.lower / 1e3, bin.upper / 1e3, bin.count});
  }
  return bins;
}

}  // namespace

json::object replay_json(const ReplayReport& report) {
  const ReplayResult& result = report.result;
  const ReplayOptions& options = report.options;
  json::object json = {
      {"version", report.context.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"paths", paths_json(report.paths)},
      {"trace",
       {{"name", report.trace.name},
        {"origin", report.context.trace_origin},
        {"synthetic", report.trace.synthetic}}},
      {"configuration",
       {{"page_bytes", options.page_bytes},
        {"local_pages", options.local_pages},
        {"fetch_deadline_ms", options.fetch_deadline_ns / kMillisecond},
        {"put_deadline_ms", options.put_deadline_ns / kMillisecond},
        {"hedge", options.hedge},
        {"prefill_tokens_per_s", options.prefill_tokens_per_s},
        {"own_node", report.context.own_node},
        {"node_pool_bytes", report.context.node_pool_bytes}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"requests", result.requests},
      {"pages_demanded", result.pages_demanded},
      {"local_hits", result.local_hits},
      {"fetched", result.fetched},
      {"fetches", result.fetches},
      {"verdicts", verdicts_json(result.ready, result.recompute)},
      {"hedges", result.hedges},
      {"hedges_won", result.hedges_won},
      {"wrong_bytes", result.wrong_bytes},
      {"local_wrong_bytes", result.local_wrong_bytes},
      {"puts", puts_json(result)},
      {"fetch_us", latency_json(result.fetch_ns)},
      {"page_us", latency_json(result.page_ns)},
      {"bytes_per_s", result.bytes_per_s(options.page_bytes)},
      {"fetch_seconds", result.fetch_seconds},
      {"wall_seconds", result.wall_seconds},
      {"deadlines",
       {{"missed", result.late_fetches},
        {"allowed_lateness_us", kLatenessAllowedNs / kMicrosecond},
        {"lateness_max_us", static_cast<double>(result.lateness_max_ns) / 1e3}}},
      {"hit_rate", hit_rate_json(result)},
      {"events", events_json(result)},
      {"fetch_us_over_time", latency_over_time_json(result)},
      {"fetch_us_bins", bins_json(result.fetch_ns)},
  };
  return json;
}

std::string replay_table(const ReplayReport& report) {
  std::string text;
  for (const auto& [name, value] : report_rows(report))
    text += fmt::format("{:<24} {}\n", name, value);
  return text;
}

Result<void> write_report(const std::string& folder, const ReplayReport& report) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail_errno(error.value(), "cannot make the folder " + folder);
  if (auto written = write_text(folder + "/report.json", format_json(replay_json(report)));
      !written) {
    return written;
  }
  return write_text(folder + "/report.html", replay_html(report));
}

}  // namespace farpage
