#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/backend.h"
#include "control/served_clients.h"
#include "net/address.h"
#include "net/asio_runtime.h"
#include "net/listener.h"
#include "transport/fabric.h"

namespace farpage {

struct NodeFrontOptions {
  std::string backend;  // empty: by the address
  Address listen;
  NodeCredentials credentials;
  uint64_t io_threads = 1;
  BackendOptions backends;
};

// How a node is reached: its fabric, and what listens for its clients.
class NodeFront {
 public:
  static Result<std::unique_ptr<NodeFront>> make(const NodeFrontOptions& options);
  virtual ~NodeFront() = default;

  virtual Fabric& fabric() = 0;
  // Takes the address: whoever connects waits until serve().
  virtual Result<void> open() = 0;
  // After open(), until close(); not on the runtime's thread.
  virtual void serve(AsioRuntime& runtime, ControlService& service,
                     const ControlLimits& limits) = 0;
  // Gives the address back.
  virtual void close() = 0;
  // Where clients reach it, as --node takes it.
  virtual std::string address() const = 0;
};

}  // namespace farpage
