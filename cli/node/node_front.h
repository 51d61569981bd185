#pragma once

#include <memory>
#include <span>
#include <string>

#include "backends/options.h"
#include "base/status.h"
#include "control/served_clients.h"
#include "net/address/address.h"
#include "net/dial.h"
#include "net/listener.h"
#include "net/runtime/asio_runtime.h"
#include "net/socket_rights.h"
#include "transport/fabric.h"

namespace farpage {

struct NodeFrontOptions {
  std::string backend;  // empty: by the address
  Address listen;
  NodeCredentials credentials;
  // For its own connections to other nodes: of each tenant, or, without tenants, the node's.
  std::span<const ClientCredentials> peers;
  uint64_t io_threads = 1;
  BackendOptions backends;
  SocketRights socket_rights;  // of a Unix socket
};

// How a node is reached: its fabric, and what listens for its clients.
class NodeFront {
 public:
  static Result<std::unique_ptr<NodeFront>> make(const NodeFrontOptions& options);
  virtual ~NodeFront() = default;

  // With tenants, one for each.
  virtual Fabric& fabric(size_t tenant = 0) = 0;
  // Takes the address: connections wait until serve().
  virtual Result<void> open() = 0;
  // After open(), until close(); not on the runtime's thread. `service` is for those who have the
  // node's own token, or need none, and `tenants` for those who have theirs.
  virtual void serve(AsioRuntime& runtime, ControlService& service,
                     std::span<ControlService* const> tenants, const ControlLimits& limits) = 0;
  // Gives the address back.
  virtual void close() = 0;
  // Where clients reach it, as --node takes it.
  virtual std::string address() const = 0;
};

}  // namespace farpage
