#include "cli/farpage/client_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bench/client_bench.h"
#include "bench/fetch/fetch_bench.h"
#include "cli/bench_tools.h"
#include "cli/version.h"
#include "pagetable/geometry.h"

namespace farpage {
namespace {

struct ClientArguments {
  ClientBenchOptions bench;
  std::string json;
  ReachArguments reach;
};

Result<int> bench_client(const ClientArguments& arguments, ConnectOptions options,
                         const Interrupts& interrupts) {
  const ClientBenchOptions& bench = arguments.bench;
  if (!options.names_nodes()) {
    const Geometry geometry = {bench.page_bytes, FetchBench::slots_for(bench.pages), 2};
    options.embedded = true;
    options.embedded_node.pool_bytes = geometry.pool_bytes();
    options.embedded_node.page_bytes = bench.page_bytes;
  }
  const auto result =
      run_client_bench(options, bench, [&interrupts] { return interrupts.interrupted(); });
  if (!result) return tl::unexpected(result.error());
  if (result->interrupted) return fail(Code::kAborted, "interrupted");
  const ClientReport report = {bench, *result, version()};
  return tell(arguments.json, client_json(report), client_table(report), result->wrong_bytes);
}

int run_client(const ClientArguments& arguments) {
  Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  if (auto valid = arguments.bench.validate(); !valid) {
    return report_error(valid.error(), kExitUsage);
  }
  const Interrupts interrupts;
  const Result<int> exit_code = bench_client(arguments, std::move(*options), interrupts);
  return exit_code ? *exit_code : report_error(exit_code.error());
}

}  // namespace

void add_client_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "client", "Fetches from many threads through the client library, which an engine uses");
  auto arguments = std::make_shared<ClientArguments>();
  ClientBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--pages", options.pages, "Pages that it puts first");
  add_count(*command, "--batch", options.batch, "Pages per fetch");
  add_count(*command, "--threads", options.threads, "Threads that fetch at one time");
  command->add_option("--seconds", options.seconds, "How long each measurement lasts")
      ->capture_default_str();
  add_json(*command, arguments->json);
  arguments->reach.add_to(*command,
                          "Address of a running node. Without it: starts one inside this process");
  command->callback([arguments, &exit_code] { exit_code = run_client(*arguments); });
}

}  // namespace farpage
