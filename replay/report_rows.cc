#include "replay/report_rows.h"

#include <fmt/format.h>

#include "replay/put_advice.h"
#include "report/latency.h"
#include "report/path_report.h"

namespace farpage {
namespace {

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string with_share(uint64_t part, uint64_t whole) {
  return fmt::format("{} ({:.2f}%)", part, 100 * share(part, whole));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> report_rows(const ReplayReport& report) {
  const ReplayResult& result = report.result;
  std::vector<std::pair<std::string, std::string>> rows = {
      {"trace", report.trace.name},
      {"trace found", report.context.trace_origin},
      {"path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path)},
  };
  for (auto& row : path_rows(report.paths)) rows.push_back(std::move(row));
  const std::initializer_list<std::pair<std::string, std::string>> counts = {
      {"page", format_bytes(report.options.page_bytes)},
      {"requests", fmt::format("{}", result.requests)},
      {"pages demanded", fmt::format("{}", result.pages_demanded)},
      {"served locally", with_share(result.local_hits, result.pages_demanded)},
      {"fetched", with_share(result.fetched, result.pages_demanded)},
      {"  ready", with_share(result.ready, result.fetched)},
  };
  rows.insert(rows.end(), counts);
  for (size_t i = 1; i < result.recompute.size(); ++i) {
    if (result.recompute[i] == 0) continue;
    rows.emplace_back(fmt::format("  recompute: {}", reason_name(static_cast<Reason>(i))),
                      with_share(result.recompute[i], result.fetched));
  }
  if (report.options.hedge) {
    rows.emplace_back("hedges", fmt::format("{}, {} came first", result.hedges, result.hedges_won));
  }
  rows.emplace_back("wrong bytes",
                    fmt::format("{}", result.wrong_bytes + result.local_wrong_bytes));
  rows.emplace_back("missed deadlines", fmt::format("{}", result.late_fetches));
  rows.emplace_back("puts acknowledged", fmt::format("{}", result.puts[0]));
  for (size_t i = 1; i < result.puts.size(); ++i) {
    if (result.puts[i] == 0) continue;
    rows.emplace_back(fmt::format("  not: {}", code_name(static_cast<Code>(i))),
                      fmt::format("{}{}", result.puts[i], put_advice(static_cast<Code>(i))));
  }
  if (!result.put_refusal.empty()) rows.emplace_back("  the first", result.put_refusal);
  for (const ReplayEvent& event : result.events) {
    rows.emplace_back(event.what, fmt::format("after request {}", event.request));
  }
  rows.emplace_back("fetch latency", latency_text(result.fetch_ns));
  rows.emplace_back(
      "ready bytes, fetching",
      fmt::format("{:.2f} GB/s", result.bytes_per_s(report.options.page_bytes) * 1e-9));
  rows.emplace_back("time", fmt::format("{:.1f} s", result.wall_seconds));
  return rows;
}

std::vector<HitRatePoint> hit_rates(const ReplayResult& result) {
  std::vector<HitRatePoint> points;
  uint64_t demanded = 0;
  uint64_t served = 0;
  for (const ReplayWindow& window : result.windows) {
    demanded += window.pages_demanded;
    served += window.local_hits + window.ready;
    points.push_back({window.last_request,
                      share(window.local_hits + window.ready, window.pages_demanded),
                      share(window.local_hits, window.pages_demanded), share(served, demanded)});
  }
  return points;
}

}  // namespace farpage
