#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "base/stderr.h"
#include "bench/fetch/fetch_bench.h"
#include "bench/fetch/fetch_report.h"
#include "bench/impatience/deadline_bench.h"
#include "bench/index_bench.h"
#include "bench/push_bench.h"
#include "bench/put_bench.h"
#include "cli/bench_tools.h"
#include "cli/client/node_connection.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/farpage/client_command.h"
#include "cli/farpage/commands.h"
#include "cli/farpage/epoch_command.h"
#include "cli/farpage/idle_bench.h"
#include "cli/farpage/impatience_command.h"
#include "cli/options.h"
#include "cli/version.h"
#include "pagetable/geometry.h"
#include "report/json.h"

namespace farpage {
namespace {

struct FetchArguments {
  FetchBenchOptions bench;
  bool verify = true;
  std::string json;
  ReachArguments reach;
};

Result<int> bench_fetch(FetchArguments arguments, ConnectOptions options,
                        const Interrupts& interrupts) {
  FetchBenchOptions& bench = arguments.bench;
  const uint64_t pages = bench.pool_bytes / bench.page_bytes;
  const Geometry geometry = {bench.page_bytes, FetchBench::slots_for(pages), 2};
  options.own_node.pool_bytes = geometry.pool_bytes();
  options.own_node.page_bytes = bench.page_bytes;
  auto connection = NodeConnection::open(options, interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;
  bench.name_space = unique_name_space(bench.name_space, opened.has_own_node());

  Filling filling;
  const auto result =
      FetchBench(opened.client(), bench)
          .run([&interrupts] { return interrupts.interrupted(); }, std::ref(filling));
  if (!result) return tl::unexpected(result.error());
  if (result->interrupted) return fail(Code::kAborted, "interrupted");
  const std::vector<PathUse> paths = opened.client().paths();
  const FetchReport report = {bench,     *result,          opened.client().capabilities(), paths,
                              version(), arguments.verify, opened.has_own_node()};
  return tell(arguments.json, fetch_json(report), fetch_table(report), result->wrong_bytes);
}

int run_bench_fetch(const FetchArguments& arguments) {
  Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  if (auto valid = arguments.bench.validate(); !valid)
    return report_error(valid.error(), kExitUsage);
  if (arguments.bench.pool_bytes < arguments.bench.page_bytes) {
    return report_error({Code::kInvalid, "the pool holds no page: choose a larger --pool-bytes"},
                        kExitUsage);
  }
  const uint64_t replicas = options->cluster.is_given() ? options->cluster.replicas : 1;
  if (auto valid = check_hedge(arguments.bench.hedge, replicas); !valid)
    return report_error(valid.error(), kExitUsage);
  options->client.verify = arguments.verify;
  const Interrupts interrupts;
  const Result<int> exit_code = bench_fetch(arguments, std::move(*options), interrupts);
  return exit_code ? *exit_code : report_error(exit_code.error());
}

struct PushArguments {
  PushBenchOptions bench;
  bool verify = true;
  std::string json;
  ReachArguments reach;
};

Result<int> bench_push(PushArguments arguments, ConnectOptions options,
                       const Interrupts& interrupts) {
  PushBenchOptions& bench = arguments.bench;
  const uint64_t pages = bench.pool_bytes / bench.page_bytes;
  const Geometry geometry = {bench.page_bytes, FetchBench::slots_for(pages), 2};
  options.own_node.pool_bytes = geometry.pool_bytes();
  options.own_node.page_bytes = bench.page_bytes;
  auto connection = NodeConnection::open(options, interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;
  bench.name_space = unique_name_space(bench.name_space, opened.has_own_node());
  Filling filling;
  const auto result = run_push_bench(
      opened.client(), bench, [&interrupts] { return interrupts.interrupted(); },
      std::ref(filling));
  if (!result) return tl::unexpected(result.error());
  if (result->interrupted) return fail(Code::kAborted, "interrupted");
  const PushReport report = {bench,     *result,          opened.client().capabilities(),
                             version(), arguments.verify, opened.has_own_node()};
  return tell(arguments.json, push_json(report), push_table(report), result->wrong_bytes);
}

int run_bench_push(const PushArguments& arguments) {
  Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  if (auto valid = arguments.bench.validate(); !valid)
    return report_error(valid.error(), kExitUsage);
  options->client.verify = arguments.verify;
  const Interrupts interrupts;
  const Result<int> exit_code = bench_push(arguments, std::move(*options), interrupts);
  return exit_code ? *exit_code : report_error(exit_code.error());
}

void add_push(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("push", "Has the node push pages drawn at random, many at one request");
  auto arguments = std::make_shared<PushArguments>();
  PushBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages per push");
  add_count(*command, "--group", options.group, "Pages per immediate");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Size of the set of pages to draw from");
  command->add_option("--seconds", options.seconds, "How long to push")->capture_default_str();
  command->add_option("--verify", arguments->verify, "Whether landed pages are checked (on, off)")
      ->transform(CLI::IsMember({"on", "off"}))
      ->default_str("on");
  add_json(*command, arguments->json);
  arguments->reach.add_to(*command, kNodeHelp);
  command->callback([arguments, &exit_code] { exit_code = run_bench_push(*arguments); });
}

using PutArguments = NodeBenchArguments<PutBenchOptions>;

Result<int> bench_put(PutArguments arguments, ConnectOptions options,
                      const Interrupts& interrupts) {
  PutBenchOptions& bench = arguments.bench;
  if (bench.in_place && (options.cluster.is_given() || options.etcd.is_given())) {
    return fail(Code::kInvalid, "--in-place reads one node's count: name that node with --node");
  }
  return measure_over_nodes(
      arguments, bench.pool_bytes / bench.page_bytes, std::move(options), interrupts,
      [&](NodeConnection& opened, const auto& interrupted) {
        return run_put_bench(opened.client(), bench, interrupted);
      },
      [&](NodeConnection& opened, const PutBenchResult& result) {
        const PutReport report = {bench,
                                  result,
                                  opened.client().capabilities(),
                                  version(),
                                  opened.has_own_node(),
                                  arguments.own_nodes.nodes,
                                  arguments.own_nodes.replicas};
        return tell(arguments.json, put_json(report), put_table(report), 0);
      });
}

void add_put(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("put", "Puts pages, one put after the other");
  auto arguments = std::make_shared<PutArguments>();
  PutBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages per put");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Keys to put, in bytes of pages");
  command->add_option("--seconds", options.seconds, "How long to put")->capture_default_str();
  command->add_flag(
      "--in-place", options.in_place,
      "From a file in memory, as an engine's pool in /dev/shm is, for a node to read");
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->get_option("--in-place")->excludes("--nodes");  // as for a fleet, above
  command->callback([arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_put); });
}

using DeadlineArguments = NodeBenchArguments<DeadlineBenchOptions>;

Result<int> bench_deadlines(DeadlineArguments arguments, ConnectOptions options,
                            const Interrupts& interrupts) {
  DeadlineBenchOptions& bench = arguments.bench;
  return measure_over_nodes(
      arguments, bench.pool_bytes / bench.page_bytes, std::move(options), interrupts,
      [&](NodeConnection& opened, const auto& interrupted) {
        return run_deadline_bench(opened.client(), bench, interrupted,
                                  [] { write_stderr("filled, and fetching\n"); });
      },
      [&](NodeConnection& opened, const DeadlineBenchResult& result) -> Result<int> {
        const DeadlineReport report = {bench, result, opened.client().capabilities(), version()};
        auto told =
            tell(arguments.json, deadline_json(report), deadline_table(report), result.wrong_bytes);
        const DeadlineJudgement judgement = judge_deadlines(result);
        if (!told || judgement.holds()) return told;
        return fail(Code::kSystem, fmt::format("{} fetches were later than the watchdog ever was",
                                               judgement.late));
      });
}

void add_deadlines(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "deadlines",
      "Fetches with short deadlines, and measures how late verdicts come, beside a watchdog");
  auto arguments = std::make_shared<DeadlineArguments>();
  DeadlineBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages per fetch");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Size of the set of pages to draw from");
  command->add_option("--seconds", options.seconds, "How long to fetch")->capture_default_str();
  add_json(*command, arguments->json);
  arguments->own_nodes.add_to(*command, arguments->reach.add_to(*command, kNodeHelp));
  command->callback(
      [arguments, &exit_code] { exit_code = run_over_nodes(*arguments, bench_deadlines); });
}

struct IndexArguments {
  uint64_t pages = 10'000'000;
  std::string json;
};

int run_bench_index(const IndexArguments& arguments) {
  const Result<IndexBenchResult> result = run_index_bench(arguments.pages);
  if (!result) {
    return report_error(result.error(),
                        result.error().code == Code::kInvalid ? kExitUsage : kExitFailed);
  }
  const auto written =
      write_json_and_table(arguments.json, index_json(*result, version()), index_table(*result));
  return written ? kExitDone : report_error(written.error());
}

void add_fetch(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("fetch", "Fetches pages that it has put, beside plain memcpy");
  auto arguments = std::make_shared<FetchArguments>();
  FetchBenchOptions& options = arguments->bench;
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages per fetch");
  add_count(*command, "--depth", options.depth, "Fetches in flight on each connection");
  add_count(*command, "--connections", options.connections, "Connections, each with a thread");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Size of the set of pages to draw from");
  command->add_flag("--in-put-order", options.in_put_order,
                    "Each fetch asks for pages in the order of the puts, starting at a random "
                    "page; without it every page is random");
  command->add_flag("--hedge", options.hedge, kHedgeHelp);
  add_count(*command, "--deadline-us", options.deadline_us, "Deadline of a fetch");
  command
      ->add_option("--impossible-share", options.impossible_share,
                   "Share of the fetches whose deadline is a tenth of the others' median time. All "
                   "figures but their own leave them out")
      ->capture_default_str();
  command->add_option("--seconds", options.seconds, "How long to fetch")->capture_default_str();
  command->add_option("--verify", arguments->verify, "Whether landed pages are checked (on, off)")
      ->transform(CLI::IsMember({"on", "off"}))
      ->default_str("on");
  add_json(*command, arguments->json);
  arguments->reach.add_to(*command, kNodeHelp);
  command->callback([arguments, &exit_code] { exit_code = run_bench_fetch(*arguments); });
}

void add_index(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("index", "Looks pages up in a client's page table");
  auto arguments = std::make_shared<IndexArguments>();
  add_count(*command, "--pages", arguments->pages, "Pages in the table");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = run_bench_index(*arguments); });
}

struct IdleArguments {
  IdleBenchOptions bench;
  ReachArguments reach;
};

int run_bench_idle(const IdleArguments& arguments) {
  IdleBenchOptions options = arguments.bench;
  auto connect = arguments.reach.load({.staging_bytes = 0, .location_pages = 1});
  if (!connect) return report_error(connect.error(), kExitUsage);
  options.connect = std::move(*connect);
  const ConnectOptions& reach = options.connect;
  if (reach.node.empty() && !reach.cluster.is_given() && !reach.etcd.is_given()) {
    return report_error({Code::kInvalid,
                         "which nodes? Name one that is running with --node, or a fleet with "
                         "cluster.nodes or etcd.endpoints"},
                        kExitUsage);
  }
  if (auto valid = options.validate(); !valid) return report_error(valid.error(), kExitUsage);
  const Result<void> done = run_idle_bench(options);
  return done ? kExitDone : report_error(done.error());
}

void add_idle(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "idle", "Keeps clients on a node that ask for nothing, until its standard input ends");
  auto arguments = std::make_shared<IdleArguments>();
  IdleBenchOptions& options = arguments->bench;
  arguments->reach.add_to(*command, "Address of a running node");
  add_count(*command, "--clients", options.clients, "Clients, each with one lane");
  command->callback([arguments, &exit_code] { exit_code = run_bench_idle(*arguments); });
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measures nodes and parts of them");
  bench->require_subcommand(1);
  add_fetch(*bench, exit_code);
  add_push(*bench, exit_code);
  add_put(*bench, exit_code);
  add_deadlines(*bench, exit_code);
  add_urgent_bench(*bench, exit_code);
  add_stale_bench(*bench, exit_code);
  add_index(*bench, exit_code);
  add_epoch_bench(*bench, exit_code);
  add_idle(*bench, exit_code);
  add_client_bench(*bench, exit_code);
}

}  // namespace farpage
