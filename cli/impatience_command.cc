#include "cli/impatience_command.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/stale_bench.h"
#include "bench/turn_bench.h"
#include "bench/urgent_bench.h"
#include "cli/bench_tools.h"
#include "cli/version.h"

namespace farpage {
namespace {

constexpr uint64_t kHeldNs = 3'600 * kSecond;  // longer than any read may take

using UrgentArguments = NodeBenchArguments<UrgentBenchOptions>;
using StaleArguments = NodeBenchArguments<StaleBenchOptions>;
using TurnArguments = NodeBenchArguments<TurnBenchOptions>;

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

Result<int> bench_turns(TurnArguments arguments, ConnectOptions options,
                        const Interrupts& interrupts) {
  TurnBenchOptions& bench = arguments.bench;
  options.is_shaped = true;
  Filling filling;
  return measure_over_nodes(
      arguments, bench.pool_bytes / bench.page_bytes, std::move(options), interrupts,
      [&](NodeConnection& opened, const auto& interrupted) {
        const auto hold = [&opened](bool holds) {
          opened.shaped()->shape({.latency_ns = holds ? kHeldNs : 0, .bytes_per_s = 0});
        };
        return run_turn_bench(opened.client(), bench, hold, interrupted, std::ref(filling));
      },
      [&](NodeConnection& opened, const TurnBenchResult& result) {
        const TurnReport report = {bench, result, opened.client().capabilities(), version()};
        return tell(arguments.json, turn_json(report), turn_table(report), 0);
      });
}

}  // namespace

void add_turn_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "turns", "Has the path of a lane end over and over: how long its turns take meanwhile");
  auto arguments = std::make_shared<TurnArguments>();
  TurnBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages a fetch");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Pages to draw from, in bytes");
  add_count(*command, "--rounds", options.rounds, "Paths that end");
  command->add_option("--seconds", options.seconds, "Between two of them")->capture_default_str();
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_turns); });
}

void add_urgent_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "urgent", "Fetches one page with little time right behind many with much, over one lane");
  auto arguments = std::make_shared<UrgentArguments>();
  UrgentBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--beside", options.beside, "Pages of the fetch in front");
  add_count(*command, "--deadline-us", options.deadline_us, "The time that the one page has");
  add_count(*command, "--others-deadline-us", options.others_deadline_us,
            "The time that the others have");
  add_count(*command, "--rounds", options.rounds, "How often");
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_urgent); });
}

void add_stale_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "stale", "Fetches pages in a version that nobody has: how long callbacks of the client wait");
  auto arguments = std::make_shared<StaleArguments>();
  StaleBenchOptions& options = arguments->bench;
  arguments->own_nodes.nodes = arguments->own_nodes.replicas = 2;  // one alone hears no reports
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages a fetch");
  add_count(*command, "--lanes", options.lanes, "Each with a thread");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Pages to draw from, in bytes");
  command->add_option("--seconds", options.seconds, "How long to fetch")->capture_default_str();
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_stale); });
}

}  // namespace farpage
