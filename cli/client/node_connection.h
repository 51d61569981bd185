#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/client/own_node.h"
#include "cli/client/signals.h"
#include "client/connection.h"
#include "client/open_options.h"
#include "net/dial.h"

namespace farpage {

// A command's client. Without nodes of others, it starts its own.
struct ConnectOptions : OpenOptions {
  OwnNodeOptions own_node;
  ClientCredentials credentials;  // as `security` names them, for what asks a node itself
  Connection::WrapFabric wrap_fabric;

  bool names_nodes() const { return !node.empty() || cluster.is_given() || etcd.is_given(); }
};

// A connection of a command, with the nodes that it started.
class NodeConnection {
 public:
  static Result<std::unique_ptr<NodeConnection>> open(const ConnectOptions& options,
                                                      const Interrupts& interrupts);
  // As Connection::reach().
  static Result<std::unique_ptr<NodeConnection>> reach(const ConnectOptions& options,
                                                       const Interrupts& interrupts);
  Result<std::unique_ptr<Client>> connect(const ClientOptions& options);

  Client& client() { return connection_->client(); }
  Fabric& fabric() { return connection_->fabric(); }
  Runtime& runtime() { return connection_->runtime(); }  // of the client
  bool has_own_node() const { return own_nodes_ != nullptr; }
  // With own nodes, several.
  std::string kill_one() { return own_nodes_->kill_one(); }

 private:
  NodeConnection() = default;
  Result<OpenOptions> start_nodes(const ConnectOptions& options, const Interrupts& interrupts);
  ClientOptions granted(const ClientOptions& options) const;

  std::unique_ptr<OwnNodes> own_nodes_;
  std::unique_ptr<Connection> connection_;
};

// On a node that others use too, each run has keys of its own.
std::string unique_name_space(const std::string& prefix, bool own_node);

}  // namespace farpage
