#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "node/node.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "sim/sim_connection.h"
#include "sim/sim_pool_keeper.h"
#include "sim/sim_register.h"
#include "sim/sim_wire.h"
#include "sim/state_folder.h"
#include "tier/client.h"
#include "tier/link/fleet.h"
#include "tier/link/membership.h"

namespace farpage {

// Sixteen slots of 512 bytes, `read_window` of 2 ms, `view_lease` of 20 ms.
NodeOptions small_sim_node();

struct SimClusterOptions {
  NodeOptions node = small_sim_node();
  sim::SimOptions network;  // how what a host posts is treated
  uint64_t control_min_ns = 10 * kMicrosecond;
  uint64_t control_max_ns = 200 * kMicrosecond;
  uint64_t clients = 1;
  uint64_t nodes = 1;
  uint64_t replicas = 1;
  uint64_t nodes_apart = 0;  // so many, the first ones, keep headers and payloads apart
  // false: no node reaches another, so that a fleet of very many costs what its clients do. Each
  // page is on one node then.
  bool nodes_call = true;
  bool uses_register = false;  // otherwise membership is a list that never changes
  SimRegisterOptions epochs = {};
  // With a register: Membership's of the nodes. 0: they join at once.
  uint64_t meet_ns = 0;
  std::function<void(size_t node, const std::string& why)> cannot_join = nullptr;  // likewise
  bool keep_pools =
      false;  // a node that ends leaves its pool to its next run, unless power is lost
  // A node's fabric in place of its machine's own, in every run of it; null: that one. The fabric
  // is kept, also after the run has ended, as long as the cluster lives.
  std::function<std::unique_ptr<Fabric>(size_t node, sim::SimFabric& own)> wrap_node = nullptr;
};

enum class NodeEnd : uint8_t {
  kStopped,    // orderly: its memory goes with it
  kKilled,     // its process is gone, and what is mapped of its memory can still be read
  kPowerLost,  // nothing answers any more
};

// Memory nodes "n0", "n1", … and their clients, each on a host of its own, in virtual time, and the
// register of their epochs if there is one. Every client and every node can call every node.
//
// Hosts have numbers, for what happens between two of them: node_host(), client_host(),
// register_host().
//
// Clients and lanes are destroyed before the cluster.
class SimCluster {
 public:
  SimCluster(uint64_t seed, const SimClusterOptions& options);
  ~SimCluster();

  sim::World& world() { return world_; }
  uint64_t now_ns() const { return world_.now_ns(); }
  uint64_t nodes() const { return nodes_.size(); }

  // `fabric`: one that wraps the host's own.
  Result<std::unique_ptr<Client>> connect(size_t client = 0, ClientOptions options = {},
                                          Fabric* fabric = nullptr);
  // Whether this client's dials find the nodes.
  void let_dial(size_t client, bool allowed);
  // When a dial of this client last did not find the node because it may not dial; 0: never.
  uint64_t refused_dial_ns(size_t client, size_t node) const {
    return clients_[client]->refused_dial_ns[node];
  }
  sim::SimFabric& client_fabric(size_t client) { return *clients_[client]->fabric; }
  void set_network(const sim::SimOptions& options);
  void set_control_delay(uint64_t min_ns, uint64_t max_ns);

  // The run of a node that there is now; its fabric pauses and resumes it.
  bool node_runs(size_t node = 0) const { return nodes_[node].run != nullptr; }
  sim::SimFabric& node_fabric(size_t node = 0) { return *nodes_[node].run->own; }
  Fabric& wrapped_fabric(size_t node = 0) { return nodes_[node].run->fabric(); }
  NodeService& node_service(size_t node = 0) { return *nodes_[node].run->service; }
  void end_node(NodeEnd end, size_t node = 0);
  // On a new host, with a copy of the last run's state file.
  void start_node(size_t node = 0);
  // Its next run begins with epochs anew, as if its disk were gone.
  void lose_state_file(size_t node) { nodes_[node].state.clear(); }

  size_t node_host(size_t node) const { return node; }
  size_t client_host(size_t client) const { return nodes_.size() + client; }
  size_t register_host() const { return nodes_.size() + clients_.size(); }

  // Every control connection, or those between two hosts, is lost; who called dials again.
  void cut_links();
  void cut_links(size_t host, size_t other);
  // … carries nothing any more, and neither end is told.
  void silence_links();
  void silence_links(size_t host, size_t other);
  // Nothing at all passes between the two, until heal(); messages wait for that.
  void part(size_t host, size_t other);
  void heal(size_t host, size_t other);
  void heal_all();

  // The longest time of a read, and of a message, as long as nothing goes wrong.
  uint64_t longest_read_ns() const { return options_.network.delay_max_ns; }
  uint64_t longest_message_ns() const { return wire_.max_ns; }

  Fleet fleet_for_client(size_t client);
  Fleet fleet_for_node(size_t node);  // of its run that there is now
  SimRegister* epochs() { return register_.get(); }

  uint64_t control_messages() const { return wire_.messages; }  // requests, so far
  // Told of every answer of a node, when it sends it.
  void watch_answers(std::function<void(size_t host, const Reply& reply)> watcher) {
    wire_.answers = std::move(watcher);
  }

 private:
  // By node that is dialed.
  using Dialers = std::vector<std::unique_ptr<ControlDialer>>;

  struct ClientHost {
    std::unique_ptr<sim::SimFabric> fabric;
    Dialers dialers;
    std::unique_ptr<EpochRegister> epochs;
    bool may_dial = true;
    std::vector<uint64_t> refused_dial_ns;  // by node
  };
  struct NodeRun {
    std::unique_ptr<sim::SimFabric> own;
    std::unique_ptr<Fabric> wrapped;
    Dialers dialers;
    std::unique_ptr<EpochRegister> epochs;
    std::unique_ptr<NodeService> service;
    std::shared_ptr<bool> lives = std::make_shared<bool>(true);

    Fabric& fabric() { return wrapped == nullptr ? *own : *wrapped; }
  };
  struct Node {
    std::unique_ptr<Membership> membership;
    std::unique_ptr<NodeRun> run;
    std::string state;
    SimPoolKeeper pool;
  };

  Dialers make_dialers(size_t host, Runtime& runtime);
  std::shared_ptr<SimConnection> open(SimEnd caller, size_t node);
  Fleet fleet(Dialers& dialers, EpochRegister* epochs);
  sim::SimFabric* fabric_of(size_t host);  // null: it has none now

  StateFolder states_;
  SimClusterOptions options_;
  sim::World world_;
  SimWire wire_;
  Epoch list_;
  std::unique_ptr<SimRegister> register_;
  std::vector<std::unique_ptr<ClientHost>> clients_;
  std::vector<Node> nodes_;
  // Ended nodes and clients that still have memory that can be read, or callbacks that wait.
  std::vector<std::unique_ptr<NodeRun>> former_runs_;
  std::vector<std::shared_ptr<SimConnection>> connections_;
  uint64_t runs_ = 0;
};

}  // namespace farpage
