#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/client/node_connection.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/lab/shaped_link.h"
#include "cli/lab/timed_arguments.h"
#include "cli/options.h"
#include "integrity/page_header.h"
#include "lab/live/link_text.h"
#include "lab/live/live_replay.h"
#include "report/progress.h"

namespace farpage {
namespace {

struct LiveArguments {
  TimedArguments timed;
  std::string link = "25us,10GB/s";
  uint64_t pool_bytes = 0;  // of its own node; 0: what the trace needs
  uint64_t deadline_ms = 1'000;
  ReachArguments reach;
};

// How the nodes are reached, and what the way there is slowed down to.
struct LiveLink {
  ConnectOptions connect;
  vtime::TierOptions link;
  uint64_t pool_bytes = 0;
  uint64_t deadline_ns = kSecond;
};

// Enough memory for the trace's pages at a node, and some more, so that no page evicts another.
uint64_t pool_bytes_for(const paging::AccessTrace& trace, uint64_t page_bytes) {
  const uint64_t slots = trace.pages + trace.pages / 4 + 1'024;
  return slots * round_up(page_bytes + sizeof(PageHeader), sizeof(PageHeader));
}

// The whole plan over a memory node, one run after the other. `options`: those of virtual time.
Result<std::vector<vtime::TimedRun>> run_live(const LiveLink& arguments,
                                              const paging::AccessTrace& trace,
                                              const vtime::TimedOptions& options,
                                              const vtime::TimedPlan& plan) {
  const Interrupts interrupts;
  ConnectOptions connect = arguments.connect;
  const auto link = shape_link(connect);
  connect.own_node.page_bytes = options.page_bytes;
  connect.own_node.pool_bytes =
      arguments.pool_bytes > 0 ? arguments.pool_bytes : pool_bytes_for(trace, options.page_bytes);
  auto connection = NodeConnection::open(connect, interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;

  live::LiveHooks hooks;
  hooks.interrupted = [&interrupts] { return interrupts.interrupted(); };
  live::LiveOptions live_options;
  live_options.timed = options;
  live_options.deadline_ns = arguments.deadline_ns;
  live_options.name_space = unique_name_space("live", opened.has_own_node());
  auto replay =
      live::LiveReplay::create(opened.client(), opened.fabric(), trace, live_options, hooks);
  if (!replay) return tl::unexpected(replay.error());
  (*link)->shape({arguments.link.latency_ns, arguments.link.bytes_per_s});

  Progress progress("live", "accesses", plan.runs() * trace.accesses);
  uint64_t accesses = 0;
  hooks.progress = [&](uint64_t more) { progress.update(accesses += more); };
  auto all = vtime::run_each(
      trace, plan, false,
      [&](uint64_t budget_pages, prefetch::Policy& policy, prefetch::Prefetcher& prefetcher,
          const vtime::MakePlacement&) {
        return replay->run(budget_pages, policy, prefetcher, hooks);
      },
      [](size_t) {});
  if (!all) return all;
  for (vtime::TimedRun& run : *all) run.is_live = true;
  return all;
}

Result<LiveLink> link_of(const LiveArguments& arguments) {
  auto connect = arguments.reach.load();
  if (!connect) return tl::unexpected(connect.error());
  const auto link = live::parse_link(arguments.link);
  if (!link) return tl::unexpected(link.error());
  return LiveLink{std::move(*connect), *link, arguments.pool_bytes,
                  arguments.deadline_ms * kMillisecond};
}

// Virtual time first, over a tier like the link, and then the same with pages that are fetched.
// The results of virtual time are written though no page can be fetched, if that is no mistake in
// what was asked.
Result<void> run_both(const LiveArguments& arguments, const LiveLink& link,
                      const paging::AccessTrace& trace, const vtime::TimedOptions& options,
                      const vtime::TimedPlan& plan) {
  auto runs = run_in_virtual_time(trace, options, plan);
  if (!runs) return tl::unexpected(runs.error());
  const auto live = run_live(link, trace, options, plan);
  if (!live && live.error().code == Code::kInvalid) return tl::unexpected(live.error());
  if (live) runs->insert(runs->end(), live->begin(), live->end());
  const auto written = write_timed(arguments.timed.files, trace, options, *runs);
  if (!live) {
    return fail(live.error().code,
                fmt::format("{}{}{}", live.error().message,
                            written ? "; the files hold only the virtual-time results" : "; and ",
                            written ? "" : written.error().message));
  }
  uint64_t wrong_bytes = 0;
  for (const vtime::TimedRun& run : *live) wrong_bytes += run.result.wrong_bytes;
  return exit_code_of(wrong_bytes, written).map([](int) {});
}

int run(const LiveArguments& arguments) {
  const auto link = link_of(arguments);
  const auto options = link.map([&](const LiveLink& made) {
    vtime::TimedOptions timed = arguments.timed.options();
    timed.tiers = {made.link};
    return timed;
  });
  return run_timed(arguments.timed, options, {},
                   [&](const auto& trace, const auto& timed, const auto& plan) {
                     return run_both(arguments, *link, trace, timed, plan);
                   });
}

}  // namespace

void add_live_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "live",
      "Compares prefetchers on a trace, in virtual time and with pages fetched from a node");
  auto arguments = std::make_shared<LiveArguments>();
  arguments->timed.add_to(*command);
  command
      ->add_option("--link", arguments->link,
                   "Slows the path to the node down to this latency and rate")
      ->type_name("LINK")
      ->capture_default_str();
  add_count(*command, "--deadline-ms", arguments->deadline_ms, "Deadline of a fetch")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400'000}));
  CLI::Option* node = arguments->reach.add_to(*command, kNodeHelp);
  add_size(*command, "--pool-bytes", arguments->pool_bytes,
           "Memory of the node that it starts; by default enough for the trace")
      ->excludes(node);
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace farpage
