#include "bench/fetch/fetch_report.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "report/json.h"
#include "report/latency.h"
#include "report/path_report.h"
#include "report/verdicts_json.h"

namespace farpage {

namespace json = boost::json;

json::object fetch_json(const FetchReport& report) {
  const FetchBenchOptions& bench = report.options;
  const FetchBenchResult& result = report.result;
  const auto page_bytes = static_cast<double>(bench.page_bytes);
  json::object memcpy_json = {{"memcpy_bytes_per_s", nullptr}, {"of_memcpy", nullptr}};
  if (result.copied_pages_per_s > 0) {
    memcpy_json = {{"memcpy_bytes_per_s", result.copied_pages_per_s * page_bytes},
                   {"of_memcpy", result.pages_per_s / result.copied_pages_per_s}};
  }
  json::object object = {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"paths", paths_json(report.paths)},
      {"configuration",
       {{"batch", bench.batch},
        {"depth", bench.depth},
        {"connections", bench.connections},
        {"pool_bytes", bench.pool_bytes},
        {"seconds", bench.seconds},
        {"in_put_order", bench.in_put_order},
        {"hedge", bench.hedge},
        {"deadline_us", bench.deadline_us},
        {"impossible_share", bench.impossible_share},
        {"verify", report.verify},
        {"own_node", report.own_node}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", bench.page_bytes},
      {"pages_stored", result.pages_stored},
      {"pages_per_s", result.pages_per_s},
      {"bytes_per_s", result.pages_per_s * page_bytes},
  };
  object.insert(memcpy_json.begin(), memcpy_json.end());
  object["fetch_us"] = latency_json(result.fetch_ns);
  object["verdicts"] = verdicts_json(result.ready, result.recompute);
  object["impossible"] = {{"fetches", result.impossible_fetches},
                          {"pages_ready", result.impossible_ready}};
  object["channels_ended"] = result.channels_ended;
  object["hedges"] = result.hedges;
  object["hedges_won"] = result.hedges_won;
  object["wrong_bytes"] = result.wrong_bytes;
  object["checked_pages"] = result.checked_pages;
  object["node_cpu_s"] = result.node_cpu_s;
  object["client_cpu_s"] = result.client_cpu_s;
  object["posts"] = result.posts;
  object["index_looks"] = result.index_looks;
  return object;
}

std::string fetch_table(const FetchReport& report) {
  const FetchBenchResult& result = report.result;
  const Capabilities& capabilities = report.capabilities;
  const double page_gb = static_cast<double>(report.options.page_bytes) * 1e-9;
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", capabilities.backend, capabilities.path));
  for (const auto& [name, value] : path_rows(report.paths)) row(name.c_str(), value);
  row("pages drawn from",
      fmt::format("{} of {}, {}", result.pages_stored, format_bytes(report.options.page_bytes),
                  report.options.in_put_order ? "in the order of their puts" : "at random"));
  row("fetched",
      fmt::format("{:.0f} pages/s, {:.2f} GB/s", result.pages_per_s, result.pages_per_s * page_gb));
  if (result.copied_pages_per_s > 0) {
    row("memcpy of the same", fmt::format("{:.2f} GB/s; the fetch reaches {:.3f} of it",
                                          result.copied_pages_per_s * page_gb,
                                          result.pages_per_s / result.copied_pages_per_s));
  }
  row("fetch latency", latency_text(result.fetch_ns));
  row("ready", fmt::format("{}", result.ready));
  for (size_t i = 1; i < result.recompute.size(); ++i) {
    if (result.recompute[i] == 0) continue;
    row(fmt::format("recompute: {}", reason_name(static_cast<Reason>(i))).c_str(),
        fmt::format("{}", result.recompute[i]));
  }
  if (report.options.impossible_share > 0) {
    row("beside them", fmt::format("{} fetches with too little time, {} of their pages ready",
                                   result.impossible_fetches, result.impossible_ready));
  }
  row("channels ended", fmt::format("{}", result.channels_ended));
  if (report.options.hedge) {
    row("hedges", fmt::format("{}, {} came first", result.hedges, result.hedges_won));
  }
  row("wrong bytes",
      fmt::format("{} in {} pages looked at", result.wrong_bytes, result.checked_pages));
  row("CPU time",
      fmt::format("client {:.3f} s, node {:.3f} s", result.client_cpu_s, result.node_cpu_s));
  return text;
}

json::object index_json(const IndexBenchResult& result, const std::string& version) {
  return {
      {"version", version},
      {"path", "one process, no node"},
      {"configuration", {{"pages", result.pages}}},
      {"hardware", hardware_json()},
      {"pages", result.pages},
      {"lookup_ns", result.lookup_ns},
      {fmt::format("lookup_ns_at_{}", kReferencePages), result.lookup_ns_reference},
      {"lookup_ratio", result.ratio()},
      {"client_bytes_per_page", result.client_bytes_per_page},
      {"node_bytes_per_slot", result.node_bytes_per_slot},
  };
}

std::string index_table(const IndexBenchResult& result) {
  return fmt::format(
      "{:<24} {}\n{:<24} {:.1f} ns\n{:<24} {:.1f} ns; {:.1f} times as long at {} pages\n"
      "{:<24} {:.1f} bytes a page\n{:<24} {:.1f} bytes a slot\n",
      "pages", result.pages, "lookup", result.lookup_ns,
      fmt::format("lookup of {}", kReferencePages), result.lookup_ns_reference, result.ratio(),
      result.pages, "client's page table", result.client_bytes_per_page, "node's index",
      result.node_bytes_per_slot);
}

}  // namespace farpage
