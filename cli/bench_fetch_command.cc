#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <optional>

#include "bench/fetch_bench.h"
#include "bench/json.h"
#include "bench/progress.h"
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/connection.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "pagetable/geometry.h"

namespace farpage {
namespace {

namespace json = boost::json;

struct FetchArguments {
  std::string backend = kDefaultBackend;
  FetchBenchOptions bench;
  bool verify = true;
  std::string node;
  std::string json;
  ClientConfig client;
};

json::object result_json(const FetchArguments& arguments, const FetchBenchResult& result,
                         const Capabilities& capabilities) {
  const FetchBenchOptions& bench = arguments.bench;
  const auto page_bytes = static_cast<double>(bench.page_bytes);
  uint64_t recompute = 0;
  json::object by_reason;
  for (size_t i = 1; i < result.recompute.size(); ++i) {
    recompute += result.recompute[i];
    by_reason[reason_name(static_cast<Reason>(i))] = result.recompute[i];
  }
  json::object memcpy_json = {{"memcpy_bytes_per_s", nullptr}, {"of_memcpy", nullptr}};
  if (result.copied_pages_per_s > 0) {
    memcpy_json = {{"memcpy_bytes_per_s", result.copied_pages_per_s * page_bytes},
                   {"of_memcpy", result.pages_per_s / result.copied_pages_per_s}};
  }
  json::object object = {
      {"version", version()},
      {"backend", capabilities.backend},
      {"path", capabilities.path},
      {"configuration",
       {{"batch", bench.batch},
        {"depth", bench.depth},
        {"connections", bench.connections},
        {"pool_bytes", bench.pool_bytes},
        {"seconds", bench.seconds},
        {"verify", arguments.verify},
        {"own_node", arguments.node.empty()}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", bench.page_bytes},
      {"pages_stored", result.pages_stored},
      {"pages_per_s", result.pages_per_s},
      {"bytes_per_s", result.pages_per_s * page_bytes},
  };
  object.insert(memcpy_json.begin(), memcpy_json.end());
  object["fetch_us"] = latency_json(result.fetch_ns);
  object["verdicts"] = {
      {"ready", result.ready}, {"recompute", recompute}, {"recompute_by_reason", by_reason}};
  object["wrong_bytes"] = result.wrong_bytes;
  object["checked_pages"] = result.checked_pages;
  object["node_cpu_s"] = result.node_cpu_s;
  object["client_cpu_s"] = result.client_cpu_s;
  object["posts"] = result.posts;
  object["index_looks"] = result.index_looks;
  return object;
}

std::string result_table(const FetchArguments& arguments, const FetchBenchResult& result,
                         const Capabilities& capabilities) {
  const double page_gb = static_cast<double>(arguments.bench.page_bytes) * 1e-9;
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", capabilities.backend, capabilities.path));
  row("pages drawn from",
      fmt::format("{} of {}", result.pages_stored, format_bytes(arguments.bench.page_bytes)));
  row("fetched",
      fmt::format("{:.0f} pages/s, {:.2f} GB/s", result.pages_per_s, result.pages_per_s * page_gb));
  if (result.copied_pages_per_s > 0) {
    row("memcpy of the same", fmt::format("{:.2f} GB/s; the fetch reaches {:.3f} of it",
                                          result.copied_pages_per_s * page_gb,
                                          result.pages_per_s / result.copied_pages_per_s));
  }
  row("fetch p50 / p99 / p99.9",
      fmt::format("{:.1f} / {:.1f} / {:.1f} µs", result.fetch_ns.quantile(0.5) / 1e3,
                  result.fetch_ns.quantile(0.99) / 1e3, result.fetch_ns.quantile(0.999) / 1e3));
  row("ready", fmt::format("{}", result.ready));
  for (size_t i = 1; i < result.recompute.size(); ++i) {
    if (result.recompute[i] == 0) continue;
    row(fmt::format("recompute: {}", reason_name(static_cast<Reason>(i))).c_str(),
        fmt::format("{}", result.recompute[i]));
  }
  row("wrong bytes",
      fmt::format("{} in {} pages looked at", result.wrong_bytes, result.checked_pages));
  row("CPU time",
      fmt::format("client {:.3f} s, node {:.3f} s", result.client_cpu_s, result.node_cpu_s));
  return text;
}

Result<int> bench_fetch(FetchArguments arguments, const ClientOptions& client,
                        const Interrupts& interrupts) {
  FetchBenchOptions& bench = arguments.bench;
  const uint64_t pages = bench.pool_bytes / bench.page_bytes;
  const Geometry geometry = {bench.page_bytes, FetchBench::slots_for(pages), 2};
  auto connection = NodeConnection::open(
      {arguments.backend, arguments.node, {geometry.pool_bytes(), bench.page_bytes}, client},
      interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;
  bench.name_space = unique_name_space(bench.name_space, opened.has_own_node());

  std::optional<Progress> filling;
  const auto filled = [&filling](uint64_t done, uint64_t total) {
    if (!filling) filling.emplace("filling the node", "pages", total);
    filling->update(done);
    if (done == total) filling.reset();
  };
  const auto result = FetchBench(opened.client(), bench)
                          .run([&interrupts] { return interrupts.interrupted(); }, filled);
  filling.reset();
  if (!result) return tl::unexpected(result.error());
  if (result->interrupted) return fail(Code::kAborted, "interrupted");
  const Capabilities& capabilities = opened.client().capabilities();
  if (!arguments.json.empty()) {
    auto written =
        write_text(arguments.json, format_json(result_json(arguments, *result, capabilities)));
    if (!written) return tl::unexpected(written.error());
  }
  if (arguments.json != "-") {
    auto written = write_text("-", result_table(arguments, *result, capabilities));
    if (!written) return tl::unexpected(written.error());
  }
  if (result->wrong_bytes == 0) return kExitDone;
  return fail(Code::kSystem,
              fmt::format("{} wrong bytes were served as ready", result->wrong_bytes));
}

int run_bench_fetch(const FetchArguments& arguments) {
  Result<ClientOptions> client = arguments.client.load();
  if (!client) return report_error(client.error(), kExitUsage);
  if (auto backend = make_backend(arguments.backend); !backend) {
    return report_error(backend.error(), kExitUsage);
  }
  if (auto valid = arguments.bench.validate(); !valid)
    return report_error(valid.error(), kExitUsage);
  if (arguments.bench.pool_bytes < arguments.bench.page_bytes) {
    return report_error({Code::kInvalid, "the pool holds no page: choose a larger --pool-bytes"},
                        kExitUsage);
  }
  client->verify = arguments.verify;
  const Interrupts interrupts;
  const Result<int> exit_code = bench_fetch(arguments, *client, interrupts);
  return exit_code ? *exit_code : report_error(exit_code.error());
}

}  // namespace

void add_bench_fetch_command(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("fetch", "Fetches pages drawn at random, beside plain memcpy");
  auto arguments = std::make_shared<FetchArguments>();
  FetchBenchOptions& options = arguments->bench;
  command->add_option("--backend", arguments->backend, "How bytes travel")->capture_default_str();
  add_size(*command, "--page-bytes", options.page_bytes, "Size of a page");
  add_count(*command, "--batch", options.batch, "Pages a fetch");
  add_count(*command, "--depth", options.depth, "Fetches in flight on each connection");
  add_count(*command, "--connections", options.connections, "Connections, each with a thread");
  add_size(*command, "--pool-bytes", options.pool_bytes, "Pages to draw from, in bytes");
  command->add_option("--seconds", options.seconds, "How long to fetch")->capture_default_str();
  command->add_option("--verify", arguments->verify, "Whether what lands is checked (on, off)")
      ->transform(CLI::IsMember({"on", "off"}))
      ->default_str("on");
  command->add_option("--node", arguments->node, "Socket of a running node. Without it: starts one")
      ->type_name("PATH");
  add_json(*command, arguments->json);
  arguments->client.add_to(*command);
  command->callback([arguments, &exit_code] { exit_code = run_bench_fetch(*arguments); });
}

}  // namespace farpage
