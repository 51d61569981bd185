#include "lab/scale/sessions.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "lab/scale/heap.h"
#include "lab/scale/use_nodes.h"
#include "sim/sim_cluster.h"

namespace farpage {

Sessions measure_sessions(uint64_t nodes, uint64_t clients, uint64_t seed) {
  constexpr uint64_t kLeasesWatched = 10;
  SimClusterOptions options;
  options.nodes = nodes;
  options.replicas = std::min<uint64_t>(nodes, 2);
  options.clients = clients;
  const NodeOptions defaults;
  options.node.lease_ms = defaults.lease_ms;
  options.node.reuse_ms = defaults.reuse_ms;
  SimCluster cluster(seed, options);
  const uint64_t lease_ns = options.node.lease_ms * kMillisecond;
  cluster.world().run_until(cluster.now_ns() + 2 * lease_ns);  // until the nodes have each other

  const uint64_t before = heap_bytes();
  std::vector<std::unique_ptr<Client>> connected;
  std::vector<Lane> lanes;
  for (uint64_t client = 0; client < clients; ++client) {
    connected.push_back(cluster.connect(client, {.staging_bytes = 0, .location_pages = 1}).value());
    use_nodes(*connected.back(), nodes, seed);
    lanes.push_back(connected.back()->open_lane().value());
  }
  cluster.world().run_until(cluster.now_ns() + 2 * lease_ns);
  const uint64_t after = heap_bytes();

  std::vector<uint64_t> renewals;
  for (uint64_t node = 0; node < nodes; ++node) {
    renewals.push_back(cluster.node_service(node).status().renewals);
  }
  cluster.world().run_until(cluster.now_ns() + kLeasesWatched * lease_ns);
  uint64_t sum = 0;
  for (uint64_t node = 0; node < nodes; ++node) {
    renewals[node] = cluster.node_service(node).status().renewals - renewals[node];
    sum += renewals[node];
  }
  const auto [least, most] = std::ranges::minmax(renewals);
  const double watched_s = static_cast<double>(kLeasesWatched * lease_ns) / kSecond;
  return {nodes,
          clients,
          after > before ? (after - before) / clients : 0,
          static_cast<double>(sum) / static_cast<double>(nodes) / watched_s,
          most,
          least};
}

}  // namespace farpage
