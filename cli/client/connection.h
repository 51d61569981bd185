#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/backends/options.h"
#include "cli/client/cluster_options.h"
#include "cli/client/own_node.h"
#include "cli/client/signals.h"
#include "control/link.h"
#include "etcd/options.h"
#include "metrics/metrics_server.h"
#include "net/dial.h"
#include "net/runtime/asio_runtime.h"
#include "tier/client.h"
#include "transport/fabric.h"

namespace farpage {

struct ConnectOptions {
  std::string backend;     // empty: by the node's address
  std::string node;        // its address
  ClusterOptions cluster;  // or several,
  etcd::EtcdOptions etcd;  // which may be in etcd; with none of these, it starts its own
  BackendOptions backends;
  OwnNodeOptions own_node;
  ClientOptions client;
  ClientCredentials credentials;
  // Makes a fabric over the one that reaches the nodes, for those who measure what a slower one
  // would bring. It stays with the connection. None: the client has the fabric itself.
  std::function<std::unique_ptr<Fabric>(Fabric&, const Clock&)> wrap_fabric;
};

// A client, and all that it stands on.
class NodeConnection {
 public:
  ~NodeConnection();

  static Result<std::unique_ptr<NodeConnection>> open(const ConnectOptions& options,
                                                      const Interrupts& interrupts);
  // The same without a client, for those who connect() several; each must go before this.
  static Result<std::unique_ptr<NodeConnection>> reach(const ConnectOptions& options,
                                                       const Interrupts& interrupts);
  Result<std::unique_ptr<Client>> connect(const ClientOptions& options);

  Client& client() { return *client_; }
  Fabric& fabric() { return wrapped_ != nullptr ? *wrapped_ : *fabric_; }
  Runtime& runtime() { return *runtime_; }  // of the client
  bool has_own_node() const { return own_nodes_ != nullptr; }
  // With own nodes, several.
  std::string kill_one() { return own_nodes_->kill_one(); }

 private:
  NodeConnection() = default;

  std::unique_ptr<OwnNodes> own_nodes_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Fabric> wrapped_;  // over it, or null
  std::unique_ptr<AsioRuntime> runtime_;
  std::unique_ptr<ControlDialer> dialer_;  // of one node, or
  std::unique_ptr<ReachableFleet> fleet_;  // of several
  std::unique_ptr<Client> client_;
  std::unique_ptr<MetricsServer> metrics_;
};

// On a node that others use too, each run has keys of its own.
std::string unique_name_space(const std::string& prefix, bool own_node);

}  // namespace farpage
