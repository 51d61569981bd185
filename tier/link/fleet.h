#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/link.h"
#include "pagetable/epoch.h"
#include "pagetable/epoch_register.h"

namespace farpage {

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

  // Whether the register knows where a node is; null: all that may be named. On the runtime's
  // thread.
  std::function<bool(NodeId)> has_address = nullptr;

  // With a register: a node joins once it and all members that live have reached each other. It
  // gives up if that fails for so long, or six times as long if it may still come about by itself.
  // 0: it joins at once, as in most simulations.
  uint64_t meet_ns = 0;
  // It has given up, for this reason; called again until the process ends.
  std::function<void(const std::string&)> cannot_join = nullptr;
  // Which members a member has not heard of for a lease, in this epoch; again and again.
  std::function<void(uint64_t epoch, const std::vector<NodeId>&)> tell_away = nullptr;
};

}  // namespace farpage
