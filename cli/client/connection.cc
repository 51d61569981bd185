#include "cli/client/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "cli/backends/backends.h"
#include "cli/client/etcd_fleet.h"
#include "cli/client/metrics.h"
#include "control/tcp_control.h"

namespace farpage {

Result<std::unique_ptr<NodeConnection>> NodeConnection::open(const ConnectOptions& options,
                                                             const Interrupts& interrupts) {
  auto connection = reach(options, interrupts);
  if (!connection) return connection;
  auto client = (*connection)->connect(options.client);
  if (!client) return tl::unexpected(client.error());
  (*connection)->client_ = std::move(*client);
  auto metrics_socket = open_metrics(options.client.metrics_listen, "client.metrics_listen");
  if (!metrics_socket) return tl::unexpected(metrics_socket.error());
  auto metrics = serve_metrics(
      std::move(*metrics_socket),
      [&shared = *(*connection)->client_](MetricVisitor& visitor) { shared.describe(visitor); });
  if (!metrics) return tl::unexpected(metrics.error());
  (*connection)->metrics_ = std::move(*metrics);
  return connection;
}

Result<std::unique_ptr<Client>> NodeConnection::connect(const ClientOptions& options) {
  ClientOptions asked = options;
  if (own_nodes_ != nullptr) {
    asked.staging_bytes = std::min(asked.staging_bytes, own_nodes_->max_staging_bytes());
  }
  if (fleet_ != nullptr) return Client::connect(asked, *runtime_, fabric(), fleet_->fleet());
  return Client::connect(asked, *runtime_, fabric(), *dialer_);
}

Result<std::unique_ptr<NodeConnection>> NodeConnection::reach(const ConnectOptions& options,
                                                              const Interrupts& interrupts) {
  auto connection = std::unique_ptr<NodeConnection>(new NodeConnection);
  connection->runtime_ = std::make_unique<AsioRuntime>();
  Address address;  // of one of them
  ClusterOptions cluster = options.cluster;
  if (options.etcd.is_given()) {
    auto fleet = EtcdFleet::find(options.etcd, *connection->runtime_, options.credentials,
                                 options.client.connect_ms);
    if (!fleet) return tl::unexpected(fleet.error());
    auto first = parse_address((*fleet)->first_address());
    if (!first) return tl::unexpected(first.error());
    address = std::move(*first);
    connection->fleet_ = std::move(*fleet);
  } else if (cluster.is_given()) {
    auto list = cluster.list();
    if (!list) return tl::unexpected(list.error());
    address = list->front().address;
  } else if (options.node.empty()) {
    OwnNodeOptions own_node = options.own_node;
    Result<const BackendRegistration*> asked = &natural_backend(NodesAt::kUnixSocket);
    if (!options.backend.empty()) asked = find_backend(options.backend);
    if (!asked) return tl::unexpected(asked.error());
    own_node.backend = *asked;
    own_node.backends = options.backends;
    auto nodes = OwnNodes::start(own_node, interrupts);
    if (!nodes) return tl::unexpected(nodes.error());
    connection->own_nodes_ = std::move(*nodes);
    address = connection->own_nodes_->address();
    cluster.nodes = connection->own_nodes_->list();
    cluster.replicas = own_node.replicas;
    cluster.page_bytes = own_node.page_bytes;
  } else {
    auto parsed = parse_address(options.node);
    if (!parsed) return tl::unexpected(parsed.error());
    address = std::move(*parsed);
  }
  const auto backend = choose_backend(options.backend, address);
  if (!backend) return tl::unexpected(backend.error());
  auto made = (*backend)->make({options.backends, options.credentials});
  if (!made) return tl::unexpected(made.error());
  connection->fabric_ = std::move(made->fabric);
  if (options.wrap_fabric) {
    connection->wrapped_ = options.wrap_fabric(*connection->fabric_, connection->runtime_->clock());
  }
  if (connection->fleet_ != nullptr) return connection;
  if (cluster.is_given()) {
    auto fleet = ListedFleet::make(cluster, *connection->runtime_, options.credentials,
                                   options.client.connect_ms);
    if (!fleet) return tl::unexpected(fleet.error());
    connection->fleet_ = std::move(*fleet);
    return connection;
  }
  auto dialer =
      make_dialer(*connection->runtime_, address, options.credentials, options.client.connect_ms);
  if (!dialer) return tl::unexpected(dialer.error());
  connection->dialer_ = std::move(*dialer);
  return connection;
}

NodeConnection::~NodeConnection() {
  metrics_.reset();
  client_.reset();
  // The client's last messages are still on their way through the runtime.
  if (runtime_ != nullptr) runtime_->run([] {});
}

std::string unique_name_space(const std::string& prefix, bool own_node) {
  if (own_node) return prefix;
  std::random_device random;
  return fmt::format("{}/{:08x}{:08x}", prefix, random(), random());
}

}  // namespace farpage
