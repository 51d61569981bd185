#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chaos/campaign.h"
#include "chaos/campaign_options.h"
#include "cli/exit_code.h"
#include "cli/lab/chaos_processes.h"
#include "cli/lab/commands.h"
#include "cli/options.h"
#include "cli/version.h"
#include "pagetable/guards.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

constexpr const char* kHost = "host";
constexpr const char* kGpu = "gpu";
constexpr const char* kGpuUnchecked = "gpu-unchecked";
constexpr const char* kGpuBlocks = "gpu-blocks";

struct ChaosArguments {
  chaos::CampaignOptions campaign;
  std::vector<std::string> faults;
  std::vector<std::string> without;
  std::string json;
  bool real = false;  // processes
  std::string destination = kHost;
  processes::CampaignOptions of_processes;
};

Result<void> prepare(chaos::CampaignOptions& campaign, const std::vector<std::string>& faults) {
  const auto kinds = chaos::choose_kinds(chaos::kKindNames, faults);
  if (!kinds) return tl::unexpected(kinds.error());
  campaign.plan.kinds = *kinds;
  return campaign.validate();
}

Result<void> check_guards(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!guard_named(name)) {
      return fail(Code::kInvalid, fmt::format("unknown guard '{}'", name));
    }
  }
  return {};
}

Result<int> run(const chaos::CampaignOptions& campaign, const std::string& json) {
  std::optional<Progress> progress;
  if (json != "-") progress.emplace("attacking", "runs", campaign.seeds);
  const chaos::CampaignResult result = chaos::run_campaign(campaign, [&progress](uint64_t done) {
    if (progress) progress->update(done);
  });
  progress.reset();
  const Result<void> written =
      write_json_and_table(json, campaign_json(result, version()), campaign_table(result));
  if (!written) return tl::unexpected(written.error());
  if (!result.holds()) {
    return fail(Code::kSystem, fmt::format("{} runs failed, the first with seed {}",
                                           result.failed_seeds.size(), result.failed_seeds[0]));
  }
  const std::vector<std::string_view> never_caught = result.never_caught();
  if (never_caught.empty()) return kExitDone;
  return fail(Code::kSystem, fmt::format("injected {} times or more, and never caught: {}",
                                         chaos::kManyTimes, fmt::join(never_caught, ", ")));
}

int run_chaos(ChaosArguments arguments) {
  auto valid = check_guards(arguments.without).and_then([&] {
    return arguments.real ? prepare_processes(arguments.of_processes, arguments.faults)
                          : prepare(arguments.campaign, arguments.faults);
  });
  if (!valid) return report_error(valid.error(), kExitUsage);
#ifdef FARPAGE_GUARD_SWITCHES
  std::vector<std::unique_ptr<GuardOff>> off;
  for (const std::string& name : arguments.without) {
    off.push_back(std::make_unique<GuardOff>(*guard_named(name)));
  }
#endif
  const Result<int> code = arguments.real ? run_processes(arguments.of_processes, arguments.json)
                                          : run(arguments.campaign, arguments.json);
  return code ? *code : report_error(code.error());
}

// Options for both kinds of runs, where they were given.
void take_over(const CLI::App& command, const chaos::CampaignOptions& given,
               processes::CampaignOptions& campaign) {
  campaign.plan.seed = given.seed;
  if (command.count("--clients") > 0) campaign.clients = given.plan.clients;
  if (command.count("--nodes") > 0) campaign.plan.nodes = given.plan.nodes;
  if (command.count("--replicas") > 0) campaign.replicas = given.plan.replicas;
}

void add_processes_options(CLI::App& app, CLI::Option* processes, std::string& destination,
                           processes::CampaignOptions& campaign) {
  campaign.backend = natural_backend(NodesAt::kTcpPort).name();
  add_count(app, "--disturbances", campaign.plan.disturbances,
            "Number of disturbances, with --processes")
      ->needs(processes);
  app.add_option("--backend", campaign.backend,
                 "Transport of the processes: tcp, or shm, which has no network to cut")
      ->capture_default_str()
      ->needs(processes);
  app.add_option("--destination", destination,
                 "Memory that the processes' pages are fetched into: host, or gpu, which takes "
                 "CUDA's driver and the first GPU; gpu-unchecked: whose copies the GPU does not "
                 "check; gpu-blocks: in pieces, as in an engine's KV cache")
      ->transform(CLI::IsMember({kHost, kGpu, kGpuUnchecked, kGpuBlocks}))
      ->type_name("PLACE")
      ->capture_default_str()
      ->needs(processes);
  add_count(app, "--outage-s", campaign.outage_s,
            "How long the processes' etcd is down at the end; 0: not at all")
      ->needs(processes);
}

}  // namespace

void add_chaos_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("chaos",
                                     "Attacks simulated clusters, or real processes, with faults "
                                     "of every kind, and checks every answer");
  auto arguments = std::make_shared<ChaosArguments>();
  chaos::CampaignOptions& campaign = arguments->campaign;
  add_count(*command, "--seed", campaign.seed, "Seed of the first run");
  CLI::Option* seeds =
      add_count(*command, "--seeds", campaign.seeds, "Number of runs, each with the next seed");
  add_count(*command, "--clients", campaign.plan.clients, "Clients of each cluster");
  add_count(*command, "--nodes", campaign.plan.nodes, "Memory nodes of each cluster");
  add_count(*command, "--replicas", campaign.plan.replicas, "Nodes that hold each page");
  CLI::Option* keep_pools =
      command->add_flag("--keep-pools", campaign.plan.keep_pools,
                        "Nodes leave their pages to their next runs, unless power is lost");
  CLI::Option* jobs = add_count(*command, "--jobs", campaign.jobs, "Processes that share the work");
  command
      ->add_option(
          "--faults", arguments->faults,
          fmt::format("Only these kinds, with commas between: {}; of processes: {}",
                      fmt::join(chaos::kKindNames, ", "), fmt::join(processes::kKindNames, ", ")))
      ->delimiter(',')
      ->check(list_entry())
      ->type_name("LIST");
#ifdef FARPAGE_GUARD_SWITCHES
  command
      ->add_option("--without", arguments->without,
                   "Switches protocol rules off, to show that the runs then fail")
      ->delimiter(',')
      ->check(list_entry())
      ->type_name("GUARDS");
#endif
  CLI::Option* until_failure = command->add_flag("--until-failure", campaign.until_first_failure,
                                                 "Stops at the first run that fails");
  CLI::Option* real =
      command
          ->add_flag(
              "--processes", arguments->real,
              "Attacks real processes: 3 memory nodes and an etcd, each on a host of its own, "
              "with 2 replicas of a page, and 4 clients, unless told otherwise")
          ->excludes(seeds)
          ->excludes(jobs)
          ->excludes(keep_pools)
          ->excludes(until_failure);
  add_processes_options(*command, real, arguments->destination, arguments->of_processes);
  add_json(*command, arguments->json);
  command->callback([command, arguments, &exit_code] {
    take_over(*command, arguments->campaign, arguments->of_processes);
    arguments->of_processes.destination =
        arguments->destination == kGpu            ? processes::Destination::kGpu
        : arguments->destination == kGpuUnchecked ? processes::Destination::kGpuUnchecked
        : arguments->destination == kGpuBlocks    ? processes::Destination::kGpuBlocks
                                                  : processes::Destination::kHost;
    exit_code = run_chaos(*arguments);
  });
}

}  // namespace farpage
