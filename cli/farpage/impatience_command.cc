#include "cli/farpage/impatience_command.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/impatience/stale_bench.h"
#include "bench/impatience/urgent_bench.h"
#include "cli/bench_tools.h"
#include "cli/version.h"

namespace farpage {
namespace {

using UrgentArguments = NodeBenchArguments<UrgentBenchOptions>;
using StaleArguments = NodeBenchArguments<StaleBenchOptions>;

Result<int> bench_urgent(UrgentArguments arguments, ConnectOptions options,
                         const Interrupts& interrupts) {
  UrgentBenchOptions& bench = arguments.bench;
  Filling filling;
  return measure_over_nodes(
      arguments, bench.beside, std::move(options), interrupts,
      [&](NodeConnection& opened, const auto& interrupted) {
        return run_urgent_bench(opened.client(), bench, interrupted, std::ref(filling));
      },
      [&](NodeConnection& opened, const UrgentBenchResult& result) {
        const UrgentReport report = {bench, result, opened.client().capabilities(), version()};
        return tell(arguments.json, urgent_json(report), urgent_table(report), result.wrong_bytes);
      });
}

Result<int> bench_stale(StaleArguments arguments, ConnectOptions options,
                        const Interrupts& interrupts) {
  StaleBenchOptions& bench = arguments.bench;
  Filling filling;
  return measure_over_nodes(
      arguments, bench.pool_bytes / bench.page_bytes, std::move(options), interrupts,
      [&](NodeConnection& opened, const auto& interrupted) {
        return run_stale_bench(opened.client(), opened.runtime(), bench, interrupted,
                               std::ref(filling));
      },
      [&](NodeConnection& opened, const StaleBenchResult& result) {
        const StaleReport report = {bench, result, opened.client().capabilities(), version()};
        return tell(arguments.json, stale_json(report), stale_table(report), 0);
      });
}

}  // namespace

void add_urgent_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "urgent", "Fetches one page with little time right behind many with much, over one lane");
  auto arguments = std::make_shared<UrgentArguments>();
  UrgentBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--beside", options.beside, "Pages of the fetch in front");
  add_count(*command, "--deadline-us", options.deadline_us, "Deadline of the one page");
  add_count(*command, "--others-deadline-us", options.others_deadline_us, "Deadline of the others");
  add_count(*command, "--rounds", options.rounds, "How often");
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_urgent); });
}

void add_stale_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("stale",
                                           "Fetches pages in a version that no node has, and "
                                           "measures how long the client's callbacks wait");
  auto arguments = std::make_shared<StaleArguments>();
  StaleBenchOptions& options = arguments->bench;
  arguments->own_nodes.nodes = arguments->own_nodes.replicas = 2;  // one alone hears no reports
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages per fetch");
  add_count(*command, "--lanes", options.lanes, "Lanes, each with a thread");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Size of the set of pages to draw from");
  command->add_option("--seconds", options.seconds, "How long to fetch")->capture_default_str();
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_stale); });
}

}  // namespace farpage
