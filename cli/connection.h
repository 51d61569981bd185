#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/own_node.h"
#include "cli/signals.h"
#include "control/unix_socket.h"
#include "tier/client.h"
#include "transport/fabric.h"

namespace farpage {

struct ConnectOptions {
  std::string backend;
  std::string node;  // its socket; empty: start one
  OwnNodeOptions own_node;
  ClientOptions client;
};

// A client, and all that it stands on.
class NodeConnection {
 public:
  static Result<std::unique_ptr<NodeConnection>> open(const ConnectOptions& options,
                                                      const Interrupts& interrupts);

  Client& client() { return *client_; }
  Fabric& fabric() { return *fabric_; }
  bool has_own_node() const { return own_node_ != nullptr; }

 private:
  NodeConnection() = default;

  std::unique_ptr<OwnNode> own_node_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<AsioRuntime> runtime_;
  std::unique_ptr<ControlDialer> dialer_;
  std::unique_ptr<Client> client_;
};

// On a node that others use too, each run has keys of its own.
std::string unique_name_space(const std::string& prefix, bool own_node);

}  // namespace farpage
