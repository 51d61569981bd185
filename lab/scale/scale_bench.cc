#include "lab/scale/scale_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "control/codec.h"
#include "lab/scale/lone_node.h"

namespace farpage {
namespace {

constexpr uint64_t kDenseNodes = 64;
constexpr uint64_t kLookups = 200'000;
constexpr uint64_t kNodePages = 1'024;
constexpr uint64_t kHeldPages = 4'096;
constexpr uint64_t kTries = 3;   // of which the fastest counts
constexpr uint64_t kCrowd = 10;  // times all clients of the fleet
constexpr uint64_t kLeastCrowd = 200;
constexpr uint64_t kMostClients = 100'000;  // that a node may have
constexpr uint64_t kReaders = 4;
constexpr uint64_t kReads = 25;

NodeCost measure_node(uint64_t nodes, uint64_t replicas, uint64_t seed) {
  NodeCost cost = {.nodes = nodes};
  cost.lookup_ns =
      sample_placement(scale_epoch(nodes, 2, 64 * kKiB, seed), kLookups, seed, {}, 1).ns_per_lookup;
  LoneNode node(nodes, 2 * kNodePages, seed);
  cost.client_heap_bytes = node.client_heap_bytes();
  cost.enter_empty_ns = cost.enter_ns = kNever;
  for (uint64_t i = 0; i < kTries; ++i) {
    cost.enter_empty_ns = std::min(cost.enter_empty_ns, node.enter_next_epoch_ns());
  }
  node.put(kNodePages);
  cost.pages = node.status().slots_live;
  for (uint64_t i = 0; i < kTries; ++i) {
    cost.enter_ns = std::min(cost.enter_ns, node.enter_next_epoch_ns());
  }
  cost.holdings = measure_holdings(nodes, replicas, kHeldPages, kTries, seed);
  return cost;
}

// An eighth, a quarter, half of them, and all.
std::vector<uint64_t> sizes_up_to(uint64_t nodes) {
  std::vector<uint64_t> sizes;
  for (const uint64_t part : {8, 4, 2, 1}) {
    if (nodes / part >= 8) sizes.push_back(nodes / part);
  }
  return sizes;
}

double measure_held_page(uint64_t page_bytes, uint64_t seed) {
  Random random(seed);
  HoldingsReply reply;
  for (uint32_t i = 0; i < kMaxReplicaPages; ++i) {
    const uint64_t low = random.next();
    reply.pages.push_back({{low, random.next()},
                           random.next(),
                           random.below(1 << 24),
                           static_cast<uint32_t>(page_bytes),
                           false});
  }
  const double bytes = static_cast<double>(encode(NumberedReply{1, std::move(reply)}).body.size());
  return bytes / kMaxReplicaPages;
}

Result<void> measure_etcd(const ScaleOptions& options, ScaleResult& result) {
  for (const uint64_t nodes : sizes_up_to(options.nodes)) {
    auto cost = measure_register(*options.etcd, nodes, kReaders, kReads);
    if (!cost) return tl::unexpected(cost.error());
    result.etcd.push_back(*cost);
  }
  return {};
}

}  // namespace

Result<void> ScaleOptions::validate() const {
  const auto in_range = [](const char* name, uint64_t value, uint64_t least,
                           uint64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return fail(Code::kInvalid,
                fmt::format("--{} is {}: choose {} to {}", name, value, least, most));
  };
  return in_range("nodes", nodes, 8, kMaxMembers - 1)  // one more joins
      .and_then([&] { return in_range("clients", clients, 1, 100'000); })
      .and_then([&] { return in_range("pages", pages, 1, 1'000'000'000'000'000); })
      .and_then(
          [&] { return in_range("replicas", replicas, 1, std::min(kMaxReplicas, nodes / 2)); })
      .and_then([&] { return in_range("page-bytes", page_bytes, 1, 64 * kMiB); })
      .and_then([&] { return in_range("lost", lost, 1, nodes - replicas - 1); })
      .and_then([&] { return in_range("keys", keys, 1'000, 1'000'000'000'000); })
      .and_then([&] { return in_range("threads", threads, 1, 256); });
}

double NodeCost::enter_ns_per_page() const {
  const double more = static_cast<double>(enter_ns) - static_cast<double>(enter_empty_ns);
  return std::max(more, 0.0) / static_cast<double>(pages);
}

Result<ScaleResult> run_scale_bench(const ScaleOptions& options,
                                    const std::function<void(const char* part)>& told) {
  ScaleResult result;
  told("what real nodes and clients cost, by the size of their fleet");
  for (const uint64_t nodes : sizes_up_to(options.nodes)) {
    result.node_costs.push_back(measure_node(nodes, options.replicas, options.seed));
  }
  told("real clients of real nodes");
  for (const uint64_t nodes : {4, 8, 16, 32}) {
    if (nodes <= options.nodes) result.by_nodes.push_back(measure_sessions(nodes, 4, options.seed));
  }
  for (const uint64_t clients : {8, 16, 32}) {
    result.by_clients.push_back(measure_sessions(4, clients, options.seed));
  }
  told("an epoch that comes to the clients");
  result.news = measure_epoch_news({.clients = options.clients, .seed = options.seed});
  told("one node with ever more clients");
  const uint64_t crowd = std::clamp<uint64_t>(kCrowd * options.clients, kLeastCrowd, kMostClients);
  for (const uint64_t part : {100, 10, 1}) {
    result.crowds.push_back(measure_crowd(crowd / part, options.seed));
  }
  told("one client that asks every node");
  const EveryNodeOptions defaults;
  result.every_node = ask_every_node({.nodes = options.nodes,
                                      .few = std::min(defaults.few, options.nodes),
                                      .silent = std::min(defaults.silent, options.nodes / 2),
                                      .seed = options.seed});
  result.records = measure_records(options.nodes);
  result.held_page_bytes = measure_held_page(options.page_bytes, options.seed);
  if (options.etcd) {
    told("reads of the register from etcd");
    if (auto measured = measure_etcd(options, result); !measured) {
      return tl::unexpected(measured.error());
    }
  }
  told("keys placed over few nodes, a million each");
  result.dense_nodes = std::min(kDenseNodes, options.nodes);
  const Epoch dense =
      scale_epoch(result.dense_nodes, options.replicas, options.page_bytes, options.seed);
  result.dense =
      sample_placement(dense, result.dense_nodes * options.keys_per_node / options.replicas,
                       options.seed, {}, options.threads);
  told("keys placed over all nodes");
  const Epoch all = scale_epoch(options.nodes, options.replicas, options.page_bytes, options.seed);
  result.placement =
      sample_placement(all, options.keys, options.seed + 1, {1, options.lost}, options.threads);
  return result;
}

}  // namespace farpage
