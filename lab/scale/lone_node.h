#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "node/node.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "sim/quiet_dialer.h"
#include "sim/sim_connection.h"
#include "sim/sim_register.h"
#include "sim/state_folder.h"
#include "tier/client.h"
#include "tier/link/fleet.h"

namespace farpage {

// One real memory node, a member of a fleet of many of which no other runs, with the register and
// one real client: what the size of a fleet costs one of its nodes, without the others' memory.
// Each page is on one node, so that its puts wait for no other node.
class LoneNode {
 public:
  LoneNode(uint64_t nodes, uint64_t slots, uint64_t seed);
  ~LoneNode();

  // Puts `pages` pages that are this node's.
  void put(uint64_t pages);

  // Of this thread, while the node enters an epoch that another node has joined.
  uint64_t enter_next_epoch_ns();

  // Of the heap, for the client: a link to each node, this one's alone with a view.
  uint64_t client_heap_bytes() const { return client_heap_bytes_; }
  const Epoch& epoch() const { return register_.current().epoch; }
  StatusReply status() const { return node_->status(); }

 private:
  struct Host {
    sim::SimFabric fabric;
    std::unique_ptr<SimDialer> to_node = nullptr;
    std::map<NodeId, QuietDialer> to_others = {};
    std::unique_ptr<EpochRegister> epochs = nullptr;
  };
  Fleet fleet_of(Host& host);
  void confirm_others();

  StateFolder states_;
  sim::World world_;
  SimWire wire_;
  Epoch first_;
  SimRegister register_;
  Host node_host_;
  Host client_host_;
  Host other_host_;
  std::vector<std::shared_ptr<SimConnection>> connections_;
  std::unique_ptr<NodeService> node_;
  uint64_t joined_ = 0;
  uint64_t client_heap_bytes_ = 0;
  std::unique_ptr<Client> client_;
};

}  // namespace farpage
