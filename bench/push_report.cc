#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "bench/push_bench.h"
#include "report/json.h"
#include "report/latency.h"
#include "report/verdicts_json.h"

namespace farpage {

namespace json = boost::json;

json::object push_json(const PushReport& report) {
  const PushBenchOptions& bench = report.options;
  const PushBenchResult& result = report.result;
  return {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"configuration",
       {{"batch", bench.batch},
        {"group", bench.group},
        {"pool_bytes", bench.pool_bytes},
        {"seconds", bench.seconds},
        {"verify", report.verify},
        {"own_node", report.own_node}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", bench.page_bytes},
      {"pages_stored", result.pages_stored},
      {"pushes", result.pushes},
      {"pages_per_s", result.pages_per_s},
      {"bytes_per_s", result.pages_per_s * static_cast<double>(bench.page_bytes)},
      {"push_us", latency_json(result.push_ns)},
      {"verdicts", verdicts_json(result.verdicts[0], result.verdicts)},
      {"wrong_bytes", result.wrong_bytes},
      {"checked_pages", result.checked_pages},
      {"requests", result.lane.requests},
      {"landings_ended", result.lane.landings_ended},
  };
}

std::string push_table(const PushReport& report) {
  const PushBenchOptions& bench = report.options;
  const PushBenchResult& result = report.result;
  const double page_gb = static_cast<double>(bench.page_bytes) * 1e-9;
  std::string text;
  const auto row = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path));
  row("pages drawn from",
      fmt::format("{} of {}", result.pages_stored, format_bytes(bench.page_bytes)));
  row("pushes", fmt::format("{}, each of {} pages with an immediate on every {}", result.pushes,
                            bench.batch, bench.group));
  row("pushed",
      fmt::format("{:.0f} pages/s, {:.2f} GB/s", result.pages_per_s, result.pages_per_s * page_gb));
  row("push latency", latency_text(result.push_ns));
  row("ready", fmt::format("{}", result.verdicts[0]));
  for (size_t i = 1; i < result.verdicts.size(); ++i) {
    if (result.verdicts[i] == 0) continue;
    row(fmt::format("recompute: {}", reason_name(static_cast<Reason>(i))),
        fmt::format("{}", result.verdicts[i]));
  }
  row("wrong bytes",
      fmt::format("{} in {} pages looked at", result.wrong_bytes, result.checked_pages));
  return text;
}

}  // namespace farpage
