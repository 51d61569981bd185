#include "cli/client/cluster_options.h"

#include <fmt/format.h>

#include <string_view>

#include "base/config/list_text.h"
#include "control/tcp_control.h"

namespace farpage {

std::vector<ConfigField> fields(ClusterOptions& options) {
  return {
      {"nodes", &options.nodes},
      {"replicas", &options.replicas},
      {"seed", &options.seed},
      {"page_bytes", &options.page_bytes},
  };
}

std::vector<ConfigField> fields(NodeCluster& options) {
  return {
      {"nodes", &options.nodes}, {"replicas", &options.replicas}, {"seed", &options.seed},
      {"name", &options.name},   {"address", &options.address},
  };
}

Result<std::vector<NamedNode>> ClusterOptions::list() const {
  const auto entries = split_list("cluster.nodes", nodes, ListOf::kPaths);
  if (!entries) return tl::unexpected(entries.error());
  std::vector<NamedNode> named;
  for (const std::string_view entry : *entries) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return fail(Code::kInvalid,
                  fmt::format("cluster.nodes: '{}' is no NAME=ADDRESS; write a list such as "
                              "a=tcp://10.0.0.1:7010,b=tcp://10.0.0.2:7010",
                              entry));
    }
    auto address = parse_address(entry.substr(equals + 1));
    if (!address) return fail(address.error().code, "cluster.nodes: " + address.error().message);
    named.push_back({std::string(entry.substr(0, equals)), std::move(*address)});
    for (size_t i = 0; i + 1 < named.size(); ++i) {
      if (named[i].name == named.back().name) {
        return fail(Code::kInvalid,
                    fmt::format("cluster.nodes names '{}' twice: each node stands there once",
                                named.back().name));
      }
    }
  }
  return named;
}

Result<Epoch> ClusterOptions::epoch() const {
  return list().and_then([&](const std::vector<NamedNode>& named) -> Result<Epoch> {
    Epoch epoch = {
        .number = 1, .replicas = replicas, .seed = seed, .page_bytes = page_bytes, .members = {}};
    for (const NamedNode& node : named) epoch.members.push_back({node_id(node.name), 0});
    if (auto valid = validate(epoch); !valid) {
      return fail(valid.error().code, "the table [cluster]: " + valid.error().message);
    }
    return epoch;
  });
}

Result<std::unique_ptr<ListedFleet>> ListedFleet::make(const ClusterOptions& options,
                                                       AsioRuntime& runtime,
                                                       const ClientCredentials& credentials,
                                                       uint64_t connect_ms) {
  auto named = options.list();
  if (!named) return tl::unexpected(named.error());
  auto epoch = options.epoch();
  if (!epoch) return tl::unexpected(epoch.error());
  auto made = std::unique_ptr<ListedFleet>(new ListedFleet);
  made->epoch_ = std::move(*epoch);
  for (const NamedNode& node : *named) {
    auto dialer = make_dialer(runtime, node.address, credentials, connect_ms);
    if (!dialer) return tl::unexpected(dialer.error());
    made->dialers_.emplace(node_id(node.name), std::move(*dialer));
  }
  return made;
}

Fleet ListedFleet::fleet() const {
  Fleet fleet;
  fleet.list = epoch_;
  fleet.dialer = [this](NodeId node) -> ControlDialer& { return *dialers_.at(node); };
  return fleet;
}

}  // namespace farpage
