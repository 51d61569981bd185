#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/impatience/turn_bench.h"
#include "cli/bench_tools.h"
#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/lab/scale_bench.h"
#include "cli/lab/shaped_link.h"
#include "cli/options.h"
#include "cli/version.h"
#include "lab/importance/importance_bench.h"
#include "lab/recovery/recovery_bench.h"
#include "report/json.h"

namespace farpage {
namespace {

constexpr uint64_t kHeldNs = 3'600 * kSecond;  // longer than any read may take

using TurnArguments = NodeBenchArguments<TurnBenchOptions>;

Result<int> bench_turns(TurnArguments arguments, ConnectOptions options,
                        const Interrupts& interrupts) {
  TurnBenchOptions& bench = arguments.bench;
  const auto link = shape_link(options);
  Filling filling;
  return measure_over_nodes(
      arguments, bench.pool_bytes / bench.page_bytes, std::move(options), interrupts,
      [&](NodeConnection& opened, const auto& interrupted) {
        const auto hold = [&link](bool holds) {
          (*link)->shape({.latency_ns = holds ? kHeldNs : 0, .bytes_per_s = 0});
        };
        return run_turn_bench(opened.client(), bench, hold, interrupted, std::ref(filling));
      },
      [&](NodeConnection& opened, const TurnBenchResult& result) {
        const TurnReport report = {bench, result, opened.client().capabilities(), version()};
        return tell(arguments.json, turn_json(report), turn_table(report), 0);
      });
}

void add_turn_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "turns", "Breaks a lane's path again and again, and measures how long its turns take");
  auto arguments = std::make_shared<TurnArguments>();
  TurnBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages per fetch");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Size of the set of pages to draw from");
  add_count(*command, "--rounds", options.rounds, "How many paths end");
  command->add_option("--seconds", options.seconds, "Time between two of them")
      ->capture_default_str();
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_turns); });
}

struct ImportanceArguments {
  paging::ImportanceBenchOptions bench;
  std::string json;
};

boost::json::object importance_json(const paging::ImportanceCost& cost) {
  return {{"add_ns", cost.add_ns}, {"read_ns", cost.read_ns}, {"bytes", cost.bytes}};
}

Result<int> bench_importance(const ImportanceArguments& arguments) {
  const auto result = run_importance_bench(arguments.bench);
  if (!result) return tl::unexpected(result.error());
  std::string table = fmt::format("{} blocks\n", arguments.bench.blocks);
  for (const auto& [name, cost] :
       {std::pair("average", result->average), std::pair("window of 64 steps", result->window)}) {
    table += fmt::format("{:<20} add {:.1f} ns, read {:.1f} ns, {:.2f} MB\n", name, cost.add_ns,
                         cost.read_ns, static_cast<double>(cost.bytes) / 1e6);
  }
  return tell(arguments.json,
              {{"blocks", arguments.bench.blocks},
               {"average", importance_json(result->average)},
               {"window", importance_json(result->window)}},
              table, 0);
}

void add_importance(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("importance", "Updates and reads the importance of a context's blocks");
  auto arguments = std::make_shared<ImportanceArguments>();
  add_count(*command, "--blocks", arguments->bench.blocks, "Blocks of the context, in all layers");
  add_count(*command, "--layers", arguments->bench.layers, "Layers that share these blocks");
  add_count(*command, "--steps", arguments->bench.steps, "Steps in which blocks get attention");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] {
    const Result<int> told = bench_importance(*arguments);
    exit_code = told ? *told : report_error(told.error());
  });
}

struct RecoveryArguments {
  uint64_t seed = 1;
  std::string json;
};

void add_recovery(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "recovery", "Simulates a slow node and one that dies: the effect of hedges, and late pages");
  auto arguments = std::make_shared<RecoveryArguments>();
  add_count(*command, "--seed", arguments->seed, "Seed of the simulation");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] {
    const RecoveryReport report = {measure_hedging(arguments->seed), measure_death(arguments->seed),
                                   version()};
    const Result<int> told = tell(arguments->json, recovery_json(report), recovery_table(report),
                                  report.hedging.wrong_bytes + report.death.wrong_bytes);
    exit_code = told ? *told : report_error(told.error());
  });
}

void add_scale(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "scale", "Measures costs of a large fleet at sizes that fit here, and extrapolates");
  auto arguments = std::make_shared<ScaleArguments>();
  ScaleOptions& options = arguments->bench;
  add_count(*command, "--nodes", options.nodes, "Nodes of the fleet");
  add_count(*command, "--clients", options.clients, "Clients of the fleet");
  add_count(*command, "--pages", options.pages, "Pages of the fleet: counted, not stored");
  add_count(*command, "--replicas", options.replicas, "Nodes that hold each page");
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--lost", options.lost, "Nodes lost at once, beside the loss of one");
  add_count(*command, "--keys", options.keys, "Keys to place, as a sample of the pages");
  add_count(*command, "--seed", options.seed, "Seed of placement and simulation");
  add_count(*command, "--threads", options.threads, "Threads that place keys");
  command
      ->add_option("--etcd", arguments->etcd.endpoints,
                   "An etcd to measure too, as etcd.endpoints names it; keys written there, below "
                   "/farpage/bench-scale-NODES/, stay")
      ->type_name("ENDPOINTS");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = run_bench_scale(*arguments); });
}

}  // namespace

void add_lab_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measures parts of Farpage in simulations, or alone");
  bench->require_subcommand(1);
  add_importance(*bench, exit_code);
  add_recovery(*bench, exit_code);
  add_scale(*bench, exit_code);
  add_turn_bench(*bench, exit_code);
}

}  // namespace farpage
