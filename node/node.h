#pragma once

#include <memory>

#include "base/runtime.h"
#include "base/status.h"
#include "control/link.h"
#include "node/settings/options.h"
#include "node/store/pool_handoff.h"
#include "tier/link/fleet.h"
#include "transport/fabric.h"

namespace farpage {

class NodeService : public ControlService {
 public:
  // On the runtime's thread.
  virtual StatusReply status() const = 0;
};

// Makes a memory node: takes a new epoch from the state file (options.state; a second node on the
// same file is refused), and allocates and populates its pool. The service is made and runs on
// `runtime` alone, and is destroyed there, or after it has stopped. `runtime` and `fabric` outlive
// it. With a keeper, which outlives it, it goes on with what an earlier run has left there: a node
// that serves alone with all of it, a member with what another member confirms.
Result<std::unique_ptr<NodeService>> make_memory_node(const NodeOptions& options, Runtime& runtime,
                                                      Fabric& fabric,
                                                      PoolHandoff* keeper = nullptr);

// The member `self` of a fleet. Before it is one by the register, it refuses what clients ask for.
// `fleet` is copied.
Result<std::unique_ptr<NodeService>> make_memory_node(const NodeOptions& options, Runtime& runtime,
                                                      Fabric& fabric, const Fleet& fleet,
                                                      NodeId self, PoolHandoff* keeper = nullptr);

}  // namespace farpage
