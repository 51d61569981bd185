#pragma once

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "bench/fetch/fetch_bench.h"
#include "cli/client/node_connection.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "pagetable/geometry.h"
#include "report/json.h"
#include "report/progress.h"

// Code that the benches over nodes share.
namespace farpage {

// Writes the figures, and tells wrong bytes first.
inline Result<int> tell(const std::string& file, const boost::json::object& json,
                        const std::string& table, uint64_t wrong_bytes) {
  return exit_code_of(wrong_bytes, write_json_and_table(file, json, table));
}

// Shows how far the filling of the nodes is.
class Filling {
 public:
  void operator()(uint64_t done, uint64_t total) {
    if (!progress_) progress_.emplace("filling the node", "pages", total);
    progress_->update(done);
    if (done == total) progress_.reset();
  }

 private:
  std::optional<Progress> progress_;
};

// The nodes that `reach` names, or nodes of its own with room for that many of the bench's pages;
// and a name for those of one command alone.
template <typename Bench>
Result<std::unique_ptr<NodeConnection>> open_nodes(Bench& bench, uint64_t pages,
                                                   const OwnNodesArguments& own_nodes,
                                                   ConnectOptions options,
                                                   const Interrupts& interrupts) {
  const Geometry geometry = {bench.page_bytes, FetchBench::slots_for(pages), 2};
  options.own_node.pool_bytes = geometry.pool_bytes();
  options.own_node.page_bytes = bench.page_bytes;
  options.own_node.nodes = own_nodes.nodes;
  options.own_node.replicas = own_nodes.replicas;
  auto connection = NodeConnection::open(options, interrupts);
  if (connection) {
    bench.name_space = unique_name_space(bench.name_space, (*connection)->has_own_node());
  }
  return connection;
}

// The steps of every bench over nodes of its own around `measure`. Returns the exit status.
template <typename Arguments, typename Measure>
int run_over_nodes(const Arguments& arguments, const Measure& measure) {
  Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  const auto valid =
      arguments.bench.validate().and_then([&] { return arguments.own_nodes.validate(); });
  if (!valid) return report_error(valid.error(), kExitUsage);
  const Interrupts interrupts;
  const Result<int> exit_code = measure(arguments, std::move(*options), interrupts);
  return exit_code ? *exit_code : report_error(exit_code.error());
}

// Options of a bench over nodes.
template <typename Options>
struct NodeBenchArguments {
  Options bench;
  OwnNodesArguments own_nodes;
  std::string json;
  ReachArguments reach;
};

// Opens nodes with room for so many pages, has `measure` measure over them, which is told whether
// it is interrupted, and has `told` tell what came of it.
template <typename Options, typename Measure, typename Told>
Result<int> measure_over_nodes(NodeBenchArguments<Options>& arguments, uint64_t pages,
                               ConnectOptions options, const Interrupts& interrupts,
                               const Measure& measure, const Told& told) {
  auto connection =
      open_nodes(arguments.bench, pages, arguments.own_nodes, std::move(options), interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;
  const auto result = measure(opened, [&interrupts] { return interrupts.interrupted(); });
  if (!result) return tl::unexpected(result.error());
  if (result->interrupted) return fail(Code::kAborted, "interrupted");
  return told(opened, *result);
}

}  // namespace farpage
