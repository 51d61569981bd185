#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/runtime.h"
#include "node/memory_node.h"
#include "node/node.h"
#include "tier/link/fleet.h"

namespace farpage {

// A member of a fleet, through its runs. One that is left out withdraws all that it had: pool,
// registrations, every client's session; and begins anew, empty, under a new incarnation (protocol
// rule 9). It adopts the pages in a kept pool one by one, as other members say that they serve the
// same. To its clients it is as if they had never said hello. On the runtime's thread.
class FleetNode final : public NodeService {
 public:
  // Whether a node with these options can be its member `self`.
  static Result<void> check(const NodeOptions& options, const Fleet& fleet, NodeId self);

  FleetNode(const NodeOptions& options, Runtime& runtime, Fabric& fabric, const Fleet& fleet,
            NodeId self, std::shared_ptr<Versions> versions, std::shared_ptr<MemoryBudget> budget,
            PoolHandoff* keeper);

  // A new run.
  Result<void> begin();

  Result<ClientId> connected() override;
  void handle(ClientId client, Request request, std::function<void(Reply)> done) override;
  void disconnected(ClientId client) override;
  StatusReply status() const override;

 private:
  void renew(uint64_t delay_ns);
  void begin_again();

  const NodeOptions options_;
  Runtime& runtime_;
  Fabric& fabric_;
  const Fleet fleet_;
  const NodeId self_;
  std::shared_ptr<Versions> versions_;
  const std::shared_ptr<MemoryBudget> budget_;
  PoolHandoff* const keeper_;        // may be null
  std::unique_ptr<MemoryNode> run_;  // null: the one before ends, or it could not be made, and is
                                     // tried again
  std::unique_ptr<MemoryNode> former_;  // until its clients have nothing of it any more
  std::unordered_map<ClientId, ClientId> run_client_;  // as the run knows it, if it does
  ClientId last_client_ = 0;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by timers that look at it
};

}  // namespace farpage
