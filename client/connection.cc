#include "client/connection.h"

#include <algorithm>

#include "backends/backends.h"
#include "client/fleet/etcd_fleet.h"
#include "client/metrics.h"
#include "control/tcp_control.h"

namespace farpage {

Result<std::unique_ptr<Connection>> Connection::open(const OpenOptions& options,
                                                     const WrapFabric& wrap,
                                                     const ClientCredentials* loaded) {
  auto connection = reach(options, wrap, loaded);
  if (!connection) return connection;
  Connection& made = **connection;
  auto client = made.connect(options.client);
  if (!client) return tl::unexpected(made.explain(client.error()));
  made.client_ = std::move(*client);
  auto socket = open_metrics(options.client.metrics_listen, "client.metrics_listen");
  if (!socket) return tl::unexpected(socket.error());
  auto metrics = serve_metrics(
      std::move(*socket),
      [&client = *made.client_](MetricVisitor& visitor) { client.describe(visitor); });
  if (!metrics) return tl::unexpected(metrics.error());
  made.metrics_ = std::move(*metrics);
  return connection;
}

Result<std::unique_ptr<Connection>> Connection::reach(const OpenOptions& options,
                                                      const WrapFabric& wrap,
                                                      const ClientCredentials* loaded) {
  auto credentials = loaded != nullptr ? *loaded : options.security.load();
  if (!credentials) return tl::unexpected(credentials.error());
  auto connection = std::unique_ptr<Connection>(new Connection);
  connection->runtime_ = std::make_unique<AsioRuntime>();
  AsioRuntime& runtime = *connection->runtime_;
  const auto address = connection->find_nodes(options, *credentials);
  if (!address) return tl::unexpected(address.error());
  const auto backend = choose_backend(options.backend, *address);
  if (!backend) return tl::unexpected(backend.error());
  auto made = (*backend)->make({options.backends, *credentials});
  if (!made) return tl::unexpected(made.error());
  connection->fabric_ = std::move(made->fabric);
  if (wrap) connection->wrapped_ = wrap(*connection->fabric_, runtime.clock());
  if (connection->fleet_ != nullptr) return connection;
  auto dialer = make_dialer(runtime, *address, *credentials, options.client.connect_ms);
  if (!dialer) return tl::unexpected(dialer.error());
  connection->dialer_ = std::move(*dialer);
  return connection;
}

// The address of the node, or of one of the fleet's.
Result<Address> Connection::find_nodes(const OpenOptions& options,
                                       const ClientCredentials& credentials) {
  const uint64_t connect_ms = options.client.connect_ms;
  if (options.etcd.is_given()) {
    auto fleet = EtcdFleet::find(options.etcd, *runtime_, credentials, connect_ms);
    if (!fleet) return tl::unexpected(fleet.error());
    const std::string first = (*fleet)->first_address();
    fleet_ = std::move(*fleet);
    return parse_address(first);
  }
  if (options.cluster.is_given()) {
    auto fleet = ListedFleet::make(options.cluster, *runtime_, credentials, connect_ms);
    if (!fleet) return tl::unexpected(fleet.error());
    fleet_ = std::move(*fleet);
    return options.cluster.list().map(
        [](const std::vector<NamedNode>& list) { return list.front().address; });
  }
  if (!options.embedded) return parse_address(options.node);
  auto node = EmbeddedNode::start(options.embedded_node, options.backend);
  if (!node) return tl::unexpected(node.error());
  embedded_ = std::move(*node);
  return Address{embedded_->path(), "", 0};
}

Result<std::unique_ptr<Client>> Connection::connect(const ClientOptions& options) {
  if (fleet_ != nullptr) return Client::connect(options, *runtime_, fabric(), fleet_->fleet());
  ClientOptions asked = options;
  // A small node's grant is smaller than a client's default.
  if (embedded_ != nullptr) {
    asked.staging_bytes = std::min(asked.staging_bytes, embedded_->max_staging_bytes());
  }
  return Client::connect(asked, *runtime_, fabric(), *dialer_);
}

// A node that has not answered may have wanted what the process has no more of.
Error Connection::explain(const Error& error) const {
  if (error.code != Code::kTimeout) return error;
  const auto at_node = embedded_ == nullptr ? std::nullopt : embedded_->shortage();
  if (at_node) return {at_node->code, "the node in this process " + at_node->message};
  return runtime_->shortage().value_or(error);
}

Connection::~Connection() {
  metrics_.reset();
  client_.reset();
  // The client's last messages are still on their way through the runtime.
  if (runtime_ != nullptr) runtime_->run([] {});
}

}  // namespace farpage
