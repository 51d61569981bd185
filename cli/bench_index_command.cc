#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>

#include "bench/index_bench.h"
#include "bench/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/version.h"

namespace farpage {
namespace {

struct IndexArguments {
  uint64_t pages = 10'000'000;
  std::string json;
};

std::string result_json(const IndexBenchResult& result) {
  return format_json(boost::json::object{
      {"version", version()},
      {"path", "one process, no node"},
      {"configuration", {{"pages", result.pages}}},
      {"hardware", hardware_json()},
      {"pages", result.pages},
      {"lookup_ns", result.lookup_ns},
      {fmt::format("lookup_ns_at_{}", kReferencePages), result.lookup_ns_reference},
      {"lookup_ratio", result.ratio()},
      {"client_bytes_per_page", result.client_bytes_per_page},
      {"node_bytes_per_slot", result.node_bytes_per_slot},
  });
}

std::string result_table(const IndexBenchResult& result) {
  return fmt::format(
      "{:<24} {}\n{:<24} {:.1f} ns\n{:<24} {:.1f} ns; {:.1f} times as long at {} pages\n"
      "{:<24} {:.1f} bytes a page\n{:<24} {:.1f} bytes a slot\n",
      "pages", result.pages, "lookup", result.lookup_ns,
      fmt::format("lookup of {}", kReferencePages), result.lookup_ns_reference, result.ratio(),
      result.pages, "client's page table", result.client_bytes_per_page, "node's index",
      result.node_bytes_per_slot);
}

int run_bench_index(const IndexArguments& arguments) {
  const Result<IndexBenchResult> result = run_index_bench(arguments.pages);
  if (!result) {
    return report_error(result.error(),
                        result.error().code == Code::kInvalid ? kExitUsage : kExitFailed);
  }
  if (!arguments.json.empty()) {
    const auto written = write_text(arguments.json, result_json(*result));
    if (!written) return report_error(written.error());
  }
  if (arguments.json != "-") {
    const auto written = write_text("-", result_table(*result));
    if (!written) return report_error(written.error());
  }
  return kExitDone;
}

}  // namespace

void add_bench_index_command(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("index", "Looks pages up in a client's page table");
  auto arguments = std::make_shared<IndexArguments>();
  add_count(*command, "--pages", arguments->pages, "Pages in the table");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = run_bench_index(*arguments); });
}

}  // namespace farpage
