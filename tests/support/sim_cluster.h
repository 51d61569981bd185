#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/node.h"
#include "tests/support/temp_dir.h"
#include "tier/client.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/world.h"

namespace farpage {

// Sixteen slots of 512 bytes, L of 2 ms, V of 20 ms.
NodeOptions small_sim_node();

struct SimClusterOptions {
  NodeOptions node = small_sim_node();
  sim::SimOptions network;  // how what the clients post is treated
  uint64_t control_min_ns = 10 * kMicrosecond;
  uint64_t control_max_ns = 200 * kMicrosecond;
  uint64_t clients = 1;
};

enum class NodeEnd : uint8_t {
  kStopped,    // orderly: its memory goes with it
  kKilled,     // its process is gone, and what is mapped of its memory can still be read
  kPowerLost,  // nothing answers any more
};

class SimConnection;
class SimDialer;

// One memory node and its clients, each on a host of its own, in virtual time. Control messages
// travel encoded, in order, with seeded delays, on the runtimes of the two hosts.
//
// Clients and lanes are destroyed before the cluster.
class SimCluster {
 public:
  SimCluster(uint64_t seed, const SimClusterOptions& options);
  ~SimCluster();

  sim::World& world() { return world_; }
  uint64_t now_ns() const { return world_.now_ns(); }
  // `fabric`: one that wraps the host's own.
  Result<std::unique_ptr<Client>> connect(size_t host = 0, ClientOptions options = {},
                                          Fabric* fabric = nullptr);
  // Whether this client's dials find the node.
  void let_dial(size_t host, bool allowed);
  sim::SimFabric& client_fabric(size_t host) { return *client_fabrics_[host]; }
  void set_network(const sim::SimOptions& options);
  void set_control_delay(uint64_t min_ns, uint64_t max_ns) {
    options_.control_min_ns = min_ns;
    options_.control_max_ns = max_ns;
  }

  // The node that runs now; its fabric pauses and resumes it.
  bool node_runs() const { return node_ != nullptr; }
  sim::SimFabric& node_fabric() { return *node_fabric_; }
  void end_node(NodeEnd end);
  // On a new host, with a copy of the last node's state file.
  void start_node();

  // Every control connection is lost; the clients dial again.
  void cut_links();
  // No control connection that there is carries anything any more, and nobody is told.
  void silence_links();

  uint64_t control_messages() const { return messages_; }  // from clients, so far

 private:
  friend class SimConnection;
  friend class SimDialer;
  uint64_t control_delay() {
    return world_.random_between(options_.control_min_ns, options_.control_max_ns);
  }

  TempDir dir_;
  SimClusterOptions options_;
  sim::World world_;
  std::vector<std::unique_ptr<sim::SimFabric>> client_fabrics_;
  std::vector<std::unique_ptr<SimDialer>> dialers_;
  // What ended but still has memory that can be read, or callbacks that wait.
  std::vector<std::unique_ptr<sim::SimFabric>> former_fabrics_;
  std::vector<std::unique_ptr<ControlService>> former_nodes_;
  std::unique_ptr<sim::SimFabric> node_fabric_;
  std::unique_ptr<ControlService> node_;
  std::vector<std::shared_ptr<SimConnection>> connections_;
  uint64_t runs_ = 0;
  uint64_t messages_ = 0;
};

}  // namespace farpage
