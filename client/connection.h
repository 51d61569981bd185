#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "client/embedded/embedded_node.h"
#include "client/fleet/cluster_options.h"
#include "client/open_options.h"
#include "metrics/metrics_server.h"
#include "net/runtime/asio_runtime.h"
#include "tier/client.h"
#include "transport/fabric.h"

namespace farpage {

// A client of memory nodes and all that it stands on: the runtime's thread, the fabric, the ways to
// dial the nodes, the node inside the process if there is one, the metrics page. The destructor
// takes them down in order, and returns when the client's last messages are sent.
class Connection {
 public:
  // Makes a fabric over the one that reaches the nodes, for those who measure what a slower one
  // would bring. It lives as long as the connection. None: the client uses the fabric itself.
  using WrapFabric = std::function<std::unique_ptr<Fabric>(Fabric&, const Clock&)>;

  // Reaches the nodes and makes the client; blocks up to client.connect_ms. `loaded`: what
  // options.security names, where that was read before (a pipe can be read once); null: it is read
  // here.
  static Result<std::unique_ptr<Connection>> open(const OpenOptions& options,
                                                  const WrapFabric& wrap = {},
                                                  const ClientCredentials* loaded = nullptr);
  // The same without a client, for those who connect() several; each must go before this.
  static Result<std::unique_ptr<Connection>> reach(const OpenOptions& options,
                                                   const WrapFabric& wrap = {},
                                                   const ClientCredentials* loaded = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result<std::unique_ptr<Client>> connect(const ClientOptions& options);

  Client& client() { return *client_; }  // of open()
  Fabric& fabric() { return wrapped_ != nullptr ? *wrapped_ : *fabric_; }
  Runtime& runtime() { return *runtime_; }
  // Where the client's metrics are shown; empty: nowhere.
  std::string metrics_url() const { return metrics_ == nullptr ? "" : metrics_->url(); }

 private:
  Connection() = default;
  Result<Address> find_nodes(const OpenOptions& options, const ClientCredentials& credentials);
  Error explain(const Error& error) const;

  std::unique_ptr<EmbeddedNode> embedded_;  // or null
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Fabric> wrapped_;        // over it, or null
  std::unique_ptr<AsioRuntime> runtime_;   // ends before the fabric that its last jobs may use
  std::unique_ptr<ControlDialer> dialer_;  // of one node, or
  std::unique_ptr<ReachableFleet> fleet_;  // of several
  std::unique_ptr<Client> client_;
  std::unique_ptr<MetricsServer> metrics_;
};

}  // namespace farpage
