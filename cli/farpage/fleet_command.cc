#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <utility>

#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/farpage/fleet/fleet_look.h"
#include "cli/farpage/fleet/fleet_upgrade.h"
#include "cli/options.h"
#include "report/json.h"

namespace farpage {
namespace {

constexpr int kRateMs = 1'000;

struct FleetArguments {
  ReachArguments reach;
  std::string json;
  UpgradeArguments upgrade;
};

struct FleetAccess {
  ConnectOptions options;
  etcd::Access access;
};

Result<FleetAccess> load(const FleetArguments& arguments) {
  auto options = arguments.reach.load();
  if (!options) return tl::unexpected(options.error());
  if (!options->etcd.is_given()) {
    return fail(
        Code::kInvalid,
        "which fleet? Name its etcd with --set etcd.endpoints=URL, or in the file of --config");
  }
  auto access = options->etcd.load();
  if (!access) return tl::unexpected(access.error());
  return FleetAccess{std::move(*options), std::move(*access)};
}

boost::json::object to_json(const FleetLook& fleet, double per_second) {
  boost::json::array members;
  for (const MemberLook& member : fleet.members) {
    members.push_back({{"name", member.name},
                       {"address", member.address},
                       {"state", member.state()},
                       {"trouble", member.trouble},
                       {"pages", member.pages},
                       {"to_fill", member.to_fill},
                       {"filled", member.filled}});
  }
  return {{"epoch", fleet.epoch},
          {"replicas", fleet.replicas},
          {"to_fill", fleet.to_fill()},
          {"filled_per_second", per_second},
          {"seconds_left", seconds_left(fleet.to_fill(), per_second)},
          {"members", std::move(members)}};
}

std::string to_text(const FleetLook& fleet, double per_second) {
  std::string text =
      fmt::format("epoch {}, {} replicas\n{:<20} {:<8} {:>12} {:>12}  {}\n", fleet.epoch,
                  fleet.replicas, "node", "state", "pages", "to fill", "address");
  for (const MemberLook& member : fleet.members) {
    const std::string name =
        member.name.empty() ? fmt::format("{:016x}", member.node) : member.name;
    text += fmt::format("{:<20} {:<8} {:>12} {:>12}  {}\n", name, member.state(), member.pages,
                        member.to_fill, member.trouble.empty() ? member.address : member.trouble);
  }
  if (const uint64_t left_s = seconds_left(fleet.to_fill(), per_second); left_s > 0) {
    text += fmt::format("{:.0f} pages a second, about {} s left\n", per_second, left_s);
  }
  return text;
}

// It looks twice if anything is left to fill, to tell how fast that goes.
int run_status(const FleetArguments& arguments) {
  const auto fleet = load(arguments);
  if (!fleet) return report_error(fleet.error(), kExitUsage);
  const Interrupts interrupts;
  etcd::Client client(fleet->access);
  auto look = look_at_fleet(client, fleet->options, interrupts);
  double per_second = 0;
  if (look && look->to_fill() > 0) {
    pollfd stop = {interrupts.fd(), POLLIN, 0};
    ::poll(&stop, 1, kRateMs);
    auto later = look_at_fleet(client, fleet->options, interrupts);
    if (later) per_second = filled_per_second(*look, *later);
    look = std::move(later);
  }
  if (!look) return report_error(look.error());
  const auto written =
      write_json_and_table(arguments.json, to_json(*look, per_second), to_text(*look, per_second));
  return written ? kExitDone : report_error(written.error());
}

int run_upgrade(const FleetArguments& arguments) {
  auto fleet = load(arguments);
  if (!fleet) return report_error(fleet.error(), kExitUsage);
  const Interrupts interrupts;
  const auto restarted =
      FleetUpgrade(fleet->options, std::move(fleet->access), arguments.upgrade, interrupts).run();
  if (!restarted) return report_error(restarted.error());
  // The upgrade is the result, whether or not its message can be written.
  const auto told =
      write_text("-", fmt::format("restarted {}: all serve, and no page is left to fill\n",
                                  fmt::join(*restarted, ", ")));
  if (!told) (void)report_error(told.error());
  return kExitDone;
}

}  // namespace

void add_fleet_command(CLI::App& app, int& exit_code) {
  CLI::App* fleet = app.add_subcommand("fleet", "Shows a fleet in etcd, or restarts its nodes");
  fleet->require_subcommand(1);
  auto arguments = std::make_shared<FleetArguments>();

  CLI::App* status = fleet->add_subcommand(
      "status", "Shows each node, the pages that it has to fill, and how long that takes");
  arguments->reach.add_tables_to(*status);
  add_json(*status, arguments->json);
  status->callback([arguments, &exit_code] { exit_code = run_status(*arguments); });

  CLI::App* upgrade = fleet->add_subcommand(
      "upgrade",
      "Restarts the nodes one after the other, and waits after each until all pages have their "
      "replicas again");
  arguments->reach.add_tables_to(*upgrade);
  upgrade
      ->add_option("--restart", arguments->upgrade.restart,
                   "Command for sh that restarts the node FARPAGE_NODE at FARPAGE_ADDRESS")
      ->required()
      ->type_name("COMMAND");
  add_count(*upgrade, "--within-s", arguments->upgrade.within_s,
            "Seconds that the upgrade waits for each node")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}));
  upgrade->callback([arguments, &exit_code] { exit_code = run_upgrade(*arguments); });
}

}  // namespace farpage
