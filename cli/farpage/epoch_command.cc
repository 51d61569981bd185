#include "cli/farpage/epoch_command.h"

#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "bench/epoch/epoch_bench.h"
#include "cli/bench_tools.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/version.h"
#include "report/json.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

struct EpochArguments {
  EpochBenchOptions bench;
  std::string json;
};

int run_bench_epoch(const EpochArguments& arguments) {
  if (auto valid = arguments.bench.validate(); !valid)
    return report_error(valid.error(), kExitUsage);
  const Interrupts interrupts;
  Filling filling;
  const auto result = run_epoch_bench(
      arguments.bench, shm::make_shm_fabric, [&interrupts] { return interrupts.interrupted(); },
      std::ref(filling));
  if (!result) return report_error(result.error());
  if (result->interrupted) return report_error({Code::kAborted, "interrupted"});
  const auto written =
      write_json_and_table(arguments.json, epoch_json(arguments.bench, *result, version()),
                           epoch_table(arguments.bench, *result));
  return written ? kExitDone : report_error(written.error());
}

}  // namespace

void add_epoch_bench(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "epoch",
      "Asks a node full of pages over and over, or fetches them, while members join and leave");
  auto arguments = std::make_shared<EpochArguments>();
  EpochBenchOptions& options = arguments->bench;
  add_count(*command, "--pages", options.pages, "Pages that the node holds");
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--members", options.members, "Members of the fleet, of which one runs");
  add_count(*command, "--lease-ms", options.lease_ms, "How long a view lasts");
  command->add_flag("--fetches", options.fetches,
                    "Fetch pages that the node holds all the time, rather than ask it");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = run_bench_epoch(*arguments); });
}

}  // namespace farpage
