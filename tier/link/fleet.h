#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "control/link.h"
#include "pagetable/epoch.h"
#include "pagetable/epoch_register.h"

namespace farpage {

class Membership;

// The memory nodes that belong together, as a client or one of them is told of them: who they are,
// and how each is reached.
struct Fleet {
  // Where membership is a list in the configuration: number 1 and no incarnations, the same at
  // every node and client. It never changes while they run.
  Epoch list;

  // Otherwise the register that says which epoch it is; `list` then says but how many replicas
  // there are once there are members enough, and the first epoch's seed. On the runtime's thread.
  // Outlives who is told.
  EpochRegister* epochs = nullptr;
  uint64_t view_ns = 0;  // `view_lease`, with a register: the same at every node and client

  // The dialer of a member; it outlives who is told. Called on the runtime, also for nodes that
  // join later.
  std::function<ControlDialer&(NodeId)> dialer;

  // With a register whose nodes move, both on the runtime: where a member was last known to be
  // (empty: nobody knows), and where it is in that epoch, as a node has told. Both may be empty.
  std::function<std::string(NodeId)> address_of = nullptr;
  std::function<void(uint64_t epoch, NodeId, const std::string&)> heard_of = nullptr;

  // A node's, with a register; it outlives the node. Null: a client's, or that of a node which
  // joins at once, as in most simulations.
  Membership* membership = nullptr;
};

}  // namespace farpage
