#include "cli/connection.h"

#include <fmt/format.h>

#include <random>

#include "cli/backend.h"

namespace farpage {

Result<std::unique_ptr<NodeConnection>> NodeConnection::open(const ConnectOptions& options,
                                                             const Interrupts& interrupts) {
  auto connection = std::unique_ptr<NodeConnection>(new NodeConnection);
  auto fabric = make_backend(options.backend);
  if (!fabric) return tl::unexpected(fabric.error());
  connection->fabric_ = std::move(*fabric);
  std::string address = options.node;
  if (address.empty()) {
    auto node = OwnNode::start(options.own_node, interrupts);
    if (!node) return tl::unexpected(node.error());
    connection->own_node_ = std::move(*node);
    address = connection->own_node_->socket_path();
  }
  connection->runtime_ = std::make_unique<AsioRuntime>();
  auto dialer = make_unix_dialer(*connection->runtime_, address);
  if (!dialer) return tl::unexpected(dialer.error());
  connection->dialer_ = std::move(*dialer);
  auto client = Client::connect(options.client, *connection->runtime_, *connection->fabric_,
                                *connection->dialer_);
  if (!client) return tl::unexpected(client.error());
  connection->client_ = std::move(*client);
  return connection;
}

std::string unique_name_space(const std::string& prefix, bool own_node) {
  if (own_node) return prefix;
  std::random_device random;
  return fmt::format("{}/{:08x}{:08x}", prefix, random(), random());
}

}  // namespace farpage
