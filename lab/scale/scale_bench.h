#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "lab/scale/crowd_cost.h"
#include "lab/scale/epoch_news.h"
#include "lab/scale/every_node.h"
#include "lab/scale/holdings_cost.h"
#include "lab/scale/placement_sample.h"
#include "lab/scale/register_cost.h"
#include "lab/scale/sessions.h"
#include "node/settings/options.h"
#include "tier/client.h"

namespace farpage {

struct ScaleOptions {
  uint64_t nodes = 1'000;
  uint64_t clients = 10'000;
  uint64_t pages = 10'000'000'000;
  uint64_t replicas = 2;
  uint64_t page_bytes = 64 * kKiB;
  uint64_t lost = 30;                  // nodes at once, beside the loss of one
  uint64_t keys_per_node = 1'000'000;  // in the fleet of fewer nodes
  uint64_t keys = 20'000'000;          // that are placed, of all the pages
  uint64_t seed = 1;
  uint64_t threads = 2;  // of the placing
  std::optional<etcd::Access> etcd;

  Result<void> validate() const;
};

// Costs of the number of nodes for one node and one client, by real code at one number of them.
struct NodeCost {
  uint64_t nodes = 0;
  double lookup_ns = 0;            // of a key's holders
  uint64_t pages = 0;              // that the node held
  uint64_t enter_empty_ns = 0;     // an epoch that another node has joined, with no page
  uint64_t enter_ns = 0;           // … with the pages
  uint64_t client_heap_bytes = 0;  // a client with a link to each node, of which one is reached

  HoldingsCost holdings = {};  // of telling all other members of an epoch

  double enter_ns_per_page() const;
};

struct ScaleResult {
  PlacementSample placement;  // of the whole fleet
  // Of as many nodes as are placed in moderate time, with keys_per_node each.
  uint64_t dense_nodes = 0;
  PlacementSample dense;
  std::vector<NodeCost> node_costs;  // by number of nodes, the fleet's own last
  std::vector<Sessions> by_nodes;    // as many clients of more and more nodes
  std::vector<Sessions> by_clients;  // more and more clients of as many nodes
  EpochNews news;
  EveryNode every_node;
  std::vector<CrowdCost> crowds;  // of more and more clients of one node
  RecordCost records;
  double held_page_bytes = 0;      // of one page in an answer about holdings
  std::vector<RegisterCost> etcd;  // by number of nodes, if there was one
};

inline constexpr uint64_t kKeysPerNode = 1'000'000;

// `told` of each part that begins.
Result<ScaleResult> run_scale_bench(const ScaleOptions& options,
                                    const std::function<void(const char* part)>& told);

// Extrapolation to the whole fleet: each figure is a measured one times a count.
struct ScaleOutlook {
  double pages_per_node = 0;
  // A node, at each epoch.
  double enter_s = 0;
  double walk_s = 0;      // through its pages, for all who ask; they were whole, and one has left
  double tell_s = 0;      // of what they lack by that
  double told_pages = 0;  // … to all of them
  double walk_all_s = 0;  // the same where they hold nothing, or cannot say what
  double tell_all_s = 0;
  double told_bytes = 0;  // … to all of those
  // A client.
  double client_heap_bytes = 0;
  double location_bytes = 0;  // of address space, as client.location_pages stands
  double staging_bytes = 0;   // as client.staging_bytes stands
  // A node.
  double renewals_per_s = 0;  // of clients that rest
  double session_bytes = 0;   // both ends
  double node_staging_bytes = 0;
  // The register.
  double register_reads_per_s = 0;  // by nodes, which find nothing new
  double register_etcds = 0;        // as fast as the measured one; 0: none was
  // Repair, by loss.
  struct Repair {
    uint64_t lost = 0;
    double bytes = 0;
    double pages_gone = 0;
    double mean_bytes = 0;      // that a node reads
    double largest = 0;         // … of them all, as a part of that: chance over all pages
    double sampled_spread = 0;  // standard deviation in the sample, over what chance explains
    double seconds = 0;         // at node.fill_bytes_per_s
  };
  std::vector<Repair> repairs;
};
ScaleOutlook scale_outlook(const ScaleOptions& options, const ScaleResult& result);

struct ScaleReport {
  ScaleOptions options;
  ScaleResult result;
  std::string version;
};
boost::json::object scale_json(const ScaleReport& report);
std::string scale_table(const ScaleReport& report);

}  // namespace farpage
