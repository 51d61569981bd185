#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>

#include "base/memory/system_memory.h"
#include "cli/client/connection.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/lab/replay_policies.h"
#include "cli/lab/replay_trace.h"
#include "cli/lab/trace_options.h"
#include "cli/options.h"
#include "cli/version.h"
#include "lab/live/link_text.h"
#include "replay/replay.h"
#include "replay/report.h"
#include "replay/traces/trace.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

struct ReplayArguments {
  TraceArguments trace;
  PagingArguments paging;
  CompatArguments compat;
  uint64_t page_bytes = 64 * kKiB;
  uint64_t local_pages = 0;
  uint64_t pool_bytes = 0;
  OwnNodesArguments own_nodes;
  bool kill = false;
  bool live = false;
  std::string link = "25us,10GB/s";
  uint64_t deadline_ms = 1'000;
  bool hedge = false;
  uint64_t prefill_tokens_per_s = 0;
  uint64_t block_tokens = 0;
  std::string json;
  std::string report;
  ReachArguments reach;
};

Result<void> write_results(const ReplayArguments& arguments, const ReplayReport& report) {
  if (!arguments.report.empty()) {
    if (auto written = write_report(arguments.report, report); !written) return written;
  }
  if (!arguments.json.empty()) {
    auto written = write_text(arguments.json, format_json(replay_json(report)));
    if (!written || arguments.json == "-") return written;
  }
  std::string table = replay_table(report);
  if (!arguments.report.empty())
    table += fmt::format("{:<24} {}/report.html\n", "report", arguments.report);
  return write_text("-", table);
}

// What a page costs to recompute depends on its tokens, and nothing else does.
Result<void> know_block_tokens(const ReplayArguments& arguments, Trace& trace) {
  if (arguments.block_tokens > 0) trace.block_tokens = arguments.block_tokens;
  if (trace.block_tokens || arguments.prefill_tokens_per_s == 0) return {};
  return fail(
      Code::kInvalid,
      fmt::format("--prefill-tokens-per-s needs to know how many tokens a block has, and {} "
                  "does not say: add --block-tokens, or replay it without",
                  trace.name));
}

Result<int> replay(const ReplayArguments& arguments, ConnectOptions connect,
                   const Interrupts& interrupts) {
  Result<LoadedTrace> loaded = load_trace(arguments.trace);
  if (!loaded) return tl::unexpected(loaded.error());
  if (auto known = know_block_tokens(arguments, loaded->trace); !known) {
    return tl::unexpected(known.error());
  }
  ReplayContext context;
  context.version = version();
  context.trace_origin = loaded->origin;
  connect.own_node.page_bytes = arguments.page_bytes;
  connect.own_node.pool_bytes =
      arguments.pool_bytes > 0
          ? arguments.pool_bytes
          : std::min<uint64_t>(4 * kGiB, available_memory_bytes() / 4) / arguments.own_nodes.nodes;
  connect.own_node.nodes = arguments.own_nodes.nodes;
  connect.own_node.replicas = arguments.own_nodes.replicas;
  auto connection = NodeConnection::open(connect, interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;
  context.own_node = opened.has_own_node();
  const auto status = opened.client().node_status(opened.client().clock().now_ns() + 5 * kSecond);
  if (!status) return tl::unexpected(status.error());
  context.node_pool_bytes = status->slots * status->page_bytes * arguments.own_nodes.nodes;

  ReplayOptions options;
  options.page_bytes = arguments.page_bytes;
  options.local_pages = arguments.local_pages;
  options.fetch_deadline_ns = arguments.deadline_ms * kMillisecond;
  options.hedge = arguments.hedge;
  options.prefill_tokens_per_s = arguments.prefill_tokens_per_s;
  options.name_space = unique_name_space(options.name_space, opened.has_own_node());
  auto replay = Replay::create(opened.client(), opened.fabric(), loaded->trace, options);
  if (!replay) return tl::unexpected(replay.error());
  ReplayHooks hooks;
  hooks.interrupted = [&interrupts] { return interrupts.interrupted(); };
  ReplayResult result;
  {
    Progress progress("replay", "requests", loaded->trace.requests.size());
    const uint64_t kill_at = arguments.kill ? loaded->trace.requests.size() / 2 : 0;
    hooks.progress = [&progress, &opened, kill_at](uint64_t requests) -> std::string {
      progress.update(requests);
      return requests == kill_at ? fmt::format("node {} killed", opened.kill_one()) : "";
    };
    result = replay->run(hooks);
  }
  const std::vector<PathUse> paths = opened.client().paths();
  const ReplayReport report = {loaded->trace, options, result, opened.client().capabilities(),
                               paths,         context};
  if (auto written = write_results(arguments, report); !written)
    return tl::unexpected(written.error());
  if (result.interrupted) return fail(Code::kAborted, "interrupted");
  const uint64_t wrong_bytes = result.wrong_bytes + result.local_wrong_bytes;
  if (wrong_bytes == 0) return kExitDone;
  return fail(Code::kSystem, fmt::format("{} wrong bytes were served as ready", wrong_bytes));
}

Result<LiveArguments> live_arguments(const ReplayArguments& arguments) {
  auto connect = arguments.reach.load();
  if (!connect) return tl::unexpected(connect.error());
  const auto link = live::parse_link(arguments.link);
  if (!link) return tl::unexpected(link.error());
  LiveArguments live = {std::move(*connect), *link, arguments.pool_bytes,
                        arguments.deadline_ms * kMillisecond};
  return live;
}

int run_replay(const ReplayArguments& arguments) {
  if (!arguments.compat.which.empty()) return run_compat(arguments.compat);
  if (!arguments.paging.policies.empty()) {
    PagingArguments paging = arguments.paging;
    paging.json = arguments.json;
    paging.page_bytes = arguments.page_bytes;
    paging.report = arguments.report;
    if (arguments.live) {
      auto live = live_arguments(arguments);
      if (!live) return report_error(live.error(), kExitUsage);
      paging.live = std::move(*live);
    }
    return run_paging(paging, arguments.trace);
  }
  if (!arguments.paging.csv.empty()) {
    return report_error({Code::kInvalid, "--csv needs --policy or --compat"}, kExitUsage);
  }
  Result<ConnectOptions> connect = arguments.reach.load();
  if (!connect) return report_error(connect.error(), kExitUsage);
  ReplayOptions options;
  options.page_bytes = arguments.page_bytes;
  options.fetch_deadline_ns = arguments.deadline_ms * kMillisecond;
  if (auto valid = options.validate(); !valid) return report_error(valid.error(), kExitUsage);
  if (auto valid = arguments.own_nodes.validate(); !valid)
    return report_error(valid.error(), kExitUsage);
  const uint64_t replicas =
      connect->cluster.is_given() ? connect->cluster.replicas : arguments.own_nodes.replicas;
  if (auto valid = check_hedge(arguments.hedge, replicas); !valid)
    return report_error(valid.error(), kExitUsage);
  const Interrupts interrupts;
  const Result<int> exit_code = replay(arguments, std::move(*connect), interrupts);
  return exit_code ? *exit_code : report_error(exit_code.error());
}

// Those with which no node is asked, but where it is live.
struct PagingOptions {
  CLI::Option* policy;
  CLI::Option* compat;
};

PagingOptions add_paging(CLI::App& command, ReplayArguments& arguments) {
  CLI::Option* policy = command.add_option("--policy", arguments.paging.policies, policies_help())
                            ->type_name("LIST")
                            ->delimiter(',')
                            ->check(list_entry());
  CLI::Option* budget = command
                            .add_option("--budget", arguments.paging.budgets_pages,
                                        "How many pages each of them may keep, with commas between")
                            ->type_name("LIST")
                            ->delimiter(',')
                            ->check(list_entry())
                            ->check(count_text());
  policy->needs(budget);
  budget->needs(policy);
  CLI::Option* prefetch =
      command.add_option("--prefetch", arguments.paging.prefetchers, prefetchers_help())
          ->type_name("LIST")
          ->delimiter(',')
          ->check(list_entry())
          ->needs(policy);
  add_count(command, "--compute-us", arguments.paging.compute_us,
            "With --prefetch: how long a step computes once all its pages are there")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1'000'000'000}))
      ->needs(prefetch);
  add_count(command, "--prefetch-pages", arguments.paging.prefetch_pages,
            "With --prefetch: how many pages are fetched ahead after a step, at most")
      ->needs(prefetch);
  CLI::Option* live = command.add_flag(
      "--live", arguments.live,
      "With --prefetch: beside virtual time, with pages that are really fetched from a node");
  live->needs(prefetch);
  command
      .add_option("--link", arguments.link,
                  "With --live: what the way to the node is slowed down to: latency and rate, as "
                  "in 25us,10GB/s. Virtual time has it as its tier")
      ->type_name("LINK")
      ->capture_default_str()
      ->needs(live);
  CLI::Option* tier =
      command
          .add_option("--tier", arguments.paging.tiers,
                      "With --prefetch: what lies below the budget, nearest first; "
                      "latency_us=10:gbps=100:pages=20000, of which the last, which is endless, "
                      "has no pages. bits=4: pages that come to lie there keep that many of 16 "
                      "bits of each number. Without it: one of 10 µs and 100 Gb/s")
          ->type_name("TIER")
          ->needs(prefetch)
          ->excludes(live);
  command
      .add_option("--placement", arguments.paging.placements,
                  "With two tiers or more: what keeps a page in one that is full, named as "
                  "policies; lru if nothing is said")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(list_entry())
      ->needs(tier);
  CLI::Option* compat = command
                            .add_option("--compat", arguments.compat.which,
                                        "Runs the scenarios of another simulator, exactly as it "
                                        "would: kvhl (KV-Hierarchy-Lab)")
                            ->check(CLI::IsMember({"kvhl"}));
  command.add_option("--input", arguments.compat.input, "Its workloads: NAME.trace.csv and so on")
      ->type_name("FOLDER")
      ->needs(compat);
  command
      .add_option_function<std::string>(
          "--csv",
          [&arguments](const std::string& file) {
            arguments.compat.csv = file;
            arguments.paging.csv = file;
          },
          "With --policy or --compat: writes the runs as a table; - for standard output")
      ->type_name("FILE");
  policy->excludes(compat);
  return {policy, compat};
}

}  // namespace

void add_replay_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("replay", "Replays a request trace through a memory node");
  auto arguments = std::make_shared<ReplayArguments>();
  add_trace(*command, arguments->trace);
  CLI::Option* page_bytes =
      add_size(*command, "--page-bytes", arguments->page_bytes, "Size of a page");
  CLI::Option* local_pages = add_count(*command, "--local-pages", arguments->local_pages,
                                       "Pages that the engine holds itself (LRU)");
  CLI::Option* node = arguments->reach.add_to(*command, kNodeHelp);
  CLI::Option* pool_bytes =
      add_size(*command, "--pool-bytes", arguments->pool_bytes,
               "Memory of the node that it starts; by default a quarter of what is available, "
               "at most 4GiB");
  pool_bytes->excludes(node);
  CLI::Option* nodes = arguments->own_nodes.add_to(*command, node);
  command->add_flag("--kill", arguments->kill, "Kills one of them in the middle")->needs(nodes);
  CLI::Option* deadline =
      add_count(*command, "--deadline-ms", arguments->deadline_ms, "Deadline of a fetch");
  deadline->check(CLI::Range(uint64_t{1}, uint64_t{86'400'000}));
  CLI::Option* hedge = command->add_flag("--hedge", arguments->hedge, kHedgeHelp);
  CLI::Option* prefill = add_count(
      *command, "--prefill-tokens-per-s", arguments->prefill_tokens_per_s,
      "How fast the engine recomputes: a page, which is a block of the trace, that would come "
      "later than that is not waited for; 0: unknown");
  add_count(*command, "--block-tokens", arguments->block_tokens,
            "With --prefill-tokens-per-s: how many tokens a block of the trace has; 0: as many as "
            "it says, or 512 where its requests agree with that")
      ->needs(prefill);
  CLI::Option* json = add_json(*command, arguments->json);
  CLI::Option* report = command
                            ->add_option("--report", arguments->report,
                                         "Writes report.json and report.html into this folder")
                            ->type_name("FOLDER");
  const PagingOptions options = add_paging(*command, *arguments);
  for (CLI::Option* other : {nodes, local_pages, hedge, prefill}) {
    options.policy->excludes(other);
    options.compat->excludes(other);
  }
  options.compat->excludes(json)->excludes(report);
  command->callback([arguments, page_bytes, node, pool_bytes, deadline, &exit_code] {
    const bool asks_no_node = !arguments->compat.which.empty() ||
                              (!arguments->paging.policies.empty() && !arguments->live);
    for (const CLI::Option* option : {node, pool_bytes, deadline}) {
      if (!asks_no_node || option->count() == 0) continue;
      exit_code = report_error(
          {Code::kInvalid, option->get_name() + " means nothing to --compat, nor to --policy "
                                                "without --live: no node is asked"},
          kExitUsage);
      return;
    }
    const bool is_untimed =
        !arguments->compat.which.empty() ||
        (!arguments->paging.policies.empty() && arguments->paging.prefetchers.empty());
    exit_code = is_untimed && page_bytes->count() > 0
                    ? report_error({Code::kInvalid,
                                    "--page-bytes means nothing to --compat, nor to --policy "
                                    "without --prefetch: pages are counted there"},
                                   kExitUsage)
                    : run_replay(*arguments);
  });
}

}  // namespace farpage
