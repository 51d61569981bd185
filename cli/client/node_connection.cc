#include "cli/client/node_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "backends/backends.h"
#include "base/stderr.h"

namespace farpage {

Result<std::unique_ptr<NodeConnection>> NodeConnection::open(const ConnectOptions& options,
                                                             const Interrupts& interrupts) {
  auto made = std::unique_ptr<NodeConnection>(new NodeConnection);
  const auto nodes = made->start_nodes(options, interrupts);
  if (!nodes) return tl::unexpected(nodes.error());
  auto connection = Connection::open(*nodes, options.wrap_fabric, &options.credentials);
  if (!connection) return tl::unexpected(connection.error());
  made->connection_ = std::move(*connection);
  if (const std::string url = made->connection_->metrics_url(); !url.empty()) {
    write_stderr(fmt::format("farpage: metrics on {}\n", url));
  }
  return made;
}

Result<std::unique_ptr<NodeConnection>> NodeConnection::reach(const ConnectOptions& options,
                                                              const Interrupts& interrupts) {
  auto made = std::unique_ptr<NodeConnection>(new NodeConnection);
  const auto nodes = made->start_nodes(options, interrupts);
  if (!nodes) return tl::unexpected(nodes.error());
  auto connection = Connection::reach(*nodes, options.wrap_fabric, &options.credentials);
  if (!connection) return tl::unexpected(connection.error());
  made->connection_ = std::move(*connection);
  return made;
}

Result<std::unique_ptr<Client>> NodeConnection::connect(const ClientOptions& options) {
  return connection_->connect(granted(options));
}

// The options with the nodes that there are, own ones or others'.
Result<OpenOptions> NodeConnection::start_nodes(const ConnectOptions& options,
                                                const Interrupts& interrupts) {
  OpenOptions open = options;
  if (options.names_nodes()) return open;
  OwnNodeOptions own_node = options.own_node;
  Result<const BackendRegistration*> asked = &natural_backend(NodesAt::kUnixSocket);
  if (!options.backend.empty()) asked = find_backend(options.backend);
  if (!asked) return tl::unexpected(asked.error());
  own_node.backend = *asked;
  own_node.backends = options.backends;
  auto nodes = OwnNodes::start(own_node, interrupts);
  if (!nodes) return tl::unexpected(nodes.error());
  own_nodes_ = std::move(*nodes);
  open.client = granted(options.client);
  if (own_nodes_->list().empty()) {
    open.node = format_address(own_nodes_->address());
    return open;
  }
  open.cluster.nodes = own_nodes_->list();
  open.cluster.replicas = own_node.replicas;
  open.cluster.page_bytes = own_node.page_bytes;
  return open;
}

// Own nodes may grant less staging than a client asks for by default.
ClientOptions NodeConnection::granted(const ClientOptions& options) const {
  ClientOptions granted = options;
  if (own_nodes_ != nullptr) {
    granted.staging_bytes = std::min(granted.staging_bytes, own_nodes_->max_staging_bytes());
  }
  return granted;
}

std::string unique_name_space(const std::string& prefix, bool own_node) {
  if (own_node) return prefix;
  std::random_device random;
  return fmt::format("{}/{:08x}{:08x}", prefix, random(), random());
}

}  // namespace farpage
