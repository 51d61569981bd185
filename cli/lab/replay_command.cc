#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>

#include "base/memory/system_memory.h"
#include "cli/client/node_connection.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/lab/result_files.h"
#include "cli/lab/trace/replay_trace.h"
#include "cli/lab/trace/trace_options.h"
#include "cli/options.h"
#include "cli/version.h"
#include "replay/replay.h"
#include "replay/report.h"
#include "replay/traces/trace.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

struct ReplayArguments {
  TraceArguments trace;
  uint64_t page_bytes = 64 * kKiB;
  uint64_t local_pages = 0;
  uint64_t pool_bytes = 0;
  OwnNodesArguments own_nodes;
  bool kill = false;
  uint64_t deadline_ms = 1'000;
  bool hedge = false;
  uint64_t prefill_tokens_per_s = 0;
  uint64_t block_tokens = 0;
  ResultFiles files;
  ReachArguments reach;
};

// The cost of recomputing a page depends on its tokens, and nothing else does.
Result<void> know_block_tokens(const ReplayArguments& arguments, Trace& trace) {
  if (arguments.block_tokens > 0) trace.block_tokens = arguments.block_tokens;
  if (trace.block_tokens || arguments.prefill_tokens_per_s == 0) return {};
  return fail(Code::kInvalid, fmt::format("--prefill-tokens-per-s needs the tokens of a block, and "
                                          "{} does not say: add --block-tokens, or leave it out",
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
  const Result<void> written = arguments.files.write(
      {"", format_json(replay_json(report)), replay_table(report),
       [&report](const std::string& folder) { return write_report(folder, report); }});
  const uint64_t wrong_bytes = result.wrong_bytes + result.local_wrong_bytes;
  auto exit_code = exit_code_of(wrong_bytes, written);
  if (exit_code && result.interrupted) return fail(Code::kAborted, "interrupted");
  return exit_code;
}

int run_replay(const ReplayArguments& arguments) {
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

}  // namespace

void add_replay_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("replay", "Replays a request trace through a memory node");
  auto arguments = std::make_shared<ReplayArguments>();
  add_trace(*command, arguments->trace, kRequestFormats);
  add_size(*command, "--page-bytes", arguments->page_bytes, "Size of a page");
  add_count(*command, "--local-pages", arguments->local_pages,
            "Pages in the engine's own memory (LRU)");
  CLI::Option* node = arguments->reach.add_to(*command, kNodeHelp);
  add_size(*command, "--pool-bytes", arguments->pool_bytes,
           "Memory of the node that it starts; by default a quarter of the available memory, at "
           "most 4GiB")
      ->excludes(node);
  CLI::Option* nodes = arguments->own_nodes.add_to(*command, node);
  command->add_flag("--kill", arguments->kill, "Kills one of the nodes in the middle")
      ->needs(nodes);
  add_count(*command, "--deadline-ms", arguments->deadline_ms, "Deadline of a fetch")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400'000}));
  command->add_flag("--hedge", arguments->hedge, kHedgeHelp);
  CLI::Option* prefill =
      add_count(*command, "--prefill-tokens-per-s", arguments->prefill_tokens_per_s,
                "How fast the engine recomputes: replay does not wait for a page (a block of the "
                "trace) that recomputing would yield sooner; 0: unknown");
  add_count(*command, "--block-tokens", arguments->block_tokens,
            "With --prefill-tokens-per-s: tokens of a block; 0: as the trace says, or 512 where "
            "its requests agree with that")
      ->needs(prefill);
  add_json(*command, arguments->files.json);
  command
      ->add_option("--report", arguments->files.report,
                   "Writes report.json and report.html into this folder")
      ->type_name("FOLDER");
  command->callback([arguments, &exit_code] { exit_code = run_replay(*arguments); });
}

}  // namespace farpage
