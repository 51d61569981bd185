#include <algorithm>

#include "lab/scale/scale_bench.h"

namespace farpage {
namespace {

constexpr double kLocationBytes = 2 * 32;  // pagetable/location_cache.h: a page has two entries
constexpr double kReadsPerView = 4;        // node/fleet/node_epoch.cc

// Cost of one more of something, by the first and the last of several measurements.
double slope(double first, double last, double more) {
  return more <= 0 ? 0 : std::max(0.0, last - first) / more;
}

double spread(const std::vector<uint64_t>& counts, size_t without) {
  const Evenness even =
      evenness({counts.begin() + static_cast<ptrdiff_t>(without), counts.end()}, kKeysPerNode);
  return even.chance > 0 ? even.deviation / even.chance : 0;
}

ScaleOutlook::Repair repair_of(const ScaleOptions& options, const PlacementSample& sample,
                               const Loss& loss) {
  const double scale = static_cast<double>(options.pages) / static_cast<double>(sample.keys);
  const double others = static_cast<double>(options.nodes - loss.nodes.size());
  const double copies = static_cast<double>(loss.copies_to_make) * scale;
  ScaleOutlook::Repair repair;
  repair.lost = loss.nodes.size();
  repair.bytes = copies * static_cast<double>(options.page_bytes);
  repair.pages_gone = static_cast<double>(loss.keys_gone) * scale;
  repair.mean_bytes = repair.bytes / others;
  repair.largest = expected_largest(copies / others, static_cast<uint64_t>(others));
  repair.sampled_spread = spread(loss.received, loss.nodes.size());
  repair.seconds =
      repair.mean_bytes * repair.largest / static_cast<double>(NodeOptions().fill_bytes_per_s);
  return repair;
}

}  // namespace

ScaleOutlook scale_outlook(const ScaleOptions& options, const ScaleResult& result) {
  const double nodes = static_cast<double>(options.nodes);
  const double clients = static_cast<double>(options.clients);
  const double view_s = static_cast<double>(NodeOptions().lease_ms) / 1e3;
  ScaleOutlook outlook;
  outlook.pages_per_node =
      static_cast<double>(options.pages) * static_cast<double>(options.replicas) / nodes;
  const NodeCost& cost = result.node_costs.back();
  outlook.enter_s = cost.enter_ns_per_page() * outlook.pages_per_node / 1e9;
  // A node is told of each page that it is to hold by each other that holds it, and tells as much.
  outlook.told_bytes =
      outlook.pages_per_node * static_cast<double>(options.replicas - 1) * result.held_page_bytes;
  // Of each page that it held too, the one that left has given its place to one of the others.
  const double replicas = static_cast<double>(options.replicas);
  const HoldingsCost& holdings = cost.holdings;
  outlook.told_pages = outlook.pages_per_node * (replicas - 1) / (nodes - 1);
  outlook.walk_s = holdings.walk_whole_ns_per_page() * outlook.pages_per_node / 1e9;
  outlook.tell_s = holdings.tell_ns_per_page() * outlook.told_pages / 1e9;
  outlook.walk_all_s = holdings.walk_ns_per_page() * outlook.pages_per_node / 1e9;
  outlook.tell_all_s = holdings.tell_ns_per_page() * outlook.pages_per_node * (replicas - 1) / 1e9;

  const Sessions& few = result.by_nodes.front();
  const Sessions& many = result.by_nodes.back();
  outlook.client_heap_bytes = nodes * slope(static_cast<double>(few.heap_bytes_per_client),
                                            static_cast<double>(many.heap_bytes_per_client),
                                            static_cast<double>(many.nodes - few.nodes));
  outlook.session_bytes = clients * outlook.client_heap_bytes / nodes;
  outlook.location_bytes = nodes * outlook.pages_per_node * kLocationBytes;
  const double staging = static_cast<double>(ClientOptions().staging_bytes);
  outlook.staging_bytes = nodes * staging;
  outlook.node_staging_bytes = clients * staging;

  const Sessions& one = result.by_clients.front();
  const Sessions& more = result.by_clients.back();
  outlook.renewals_per_s =
      clients * slope(one.renewals_per_node_and_s, more.renewals_per_node_and_s,
                      static_cast<double>(more.clients - one.clients)) +
      (nodes - 1) * slope(few.renewals_per_node_and_s, many.renewals_per_node_and_s,
                          static_cast<double>(many.nodes - few.nodes));

  outlook.register_reads_per_s = nodes * kReadsPerView / view_s;
  if (!result.etcd.empty()) {
    outlook.register_etcds = outlook.register_reads_per_s / result.etcd.back().unchanged.per_s;
  }
  for (const Loss& loss : result.placement.losses) {
    outlook.repairs.push_back(repair_of(options, result.placement, loss));
  }
  return outlook;
}

}  // namespace farpage
