#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/epoch/local_register.h"
#include "control/unix_socket.h"
#include "net/runtime/asio_runtime.h"
#include "node/node.h"
#include "tier/client.h"
#include "tier/link/fleet.h"

namespace farpage {

// A memory node with a thread of its own that is the one running member of a fleet, and a client of
// it. The others are names in the register.
class LoneMember {
 public:
  // `make_fabric`: of a backend for one host, once for the node and once for the client. `folder`:
  // for the node's socket and state; outlives it.
  static Result<std::unique_ptr<LoneMember>> start(
      NodeOptions options, const std::function<std::unique_ptr<Fabric>()>& make_fabric,
      const std::string& folder);
  ~LoneMember();

  static NodeId self() { return node_id("lone"); }
  Client& client() { return *client_; }
  Epoch epoch() const { return register_.current().epoch; }
  // With these members beside the lone one.
  static Epoch next_epoch(const Epoch& current, const std::vector<Member>& others);
  // A member that does not run joins, or one leaves: the next epoch, which all others confirm.
  Result<void> begin_epoch(const std::vector<Member>& others);
  bool has_confirmed() const;

 private:
  LoneMember(const NodeOptions& options,
             const std::function<std::unique_ptr<Fabric>()>& make_fabric);
  Fleet fleet_for(EpochRegister& epochs, ControlDialer& to_self, ControlDialer& to_others) const;

  NodeOptions options_;
  LocalRegister register_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Fabric> client_fabric_;
  AsioRuntime runtime_;
  AsioRuntime client_runtime_;
  std::unique_ptr<EpochRegister> epochs_;
  std::unique_ptr<EpochRegister> client_epochs_;
  std::unique_ptr<ControlDialer> to_self_;
  std::unique_ptr<ControlDialer> to_nobody_;
  std::unique_ptr<ControlDialer> client_to_nobody_;
  std::unique_ptr<NodeService> node_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<Client> client_;
};

}  // namespace farpage
