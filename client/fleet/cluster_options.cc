#include "client/fleet/cluster_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/config/list_text.h"
#include "control/tcp_control.h"
#include "net/address/advertised_address.h"

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

namespace {

// The list is the same on every host, and so has to be what it means.
Result<void> check_reached(const std::vector<NamedNode>& named) {
  for (const NamedNode& node : named) {
    auto leads =
        check_advertised(node.address, fmt::format("cluster.nodes, of the node '{}'", node.name));
    if (!leads) return leads;
  }
  const auto of_one = [](const NamedNode& node) { return is_of_one_machine(node.address); };
  const auto near = std::ranges::find_if(named, of_one);
  const auto far = std::ranges::find_if_not(named, of_one);
  if (near == named.end() || far == named.end()) return {};
  return fail(
      Code::kInvalid,
      fmt::format("cluster.nodes: {}, of the node '{}', leads every host to itself, and the "
                  "node '{}' is on another ({}): write where all of them reach '{}'",
                  format_address(near->address), near->name, far->name,
                  format_address(far->address), near->name));
}

}  // namespace

Result<std::vector<NamedNode>> ClusterOptions::list() const {
  const auto entries = split_list("cluster.nodes", nodes, ListOf::kPaths);
  if (!entries) return tl::unexpected(entries.error());
  std::vector<NamedNode> named;
  for (const std::string_view entry : *entries) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return fail(Code::kInvalid,
                  fmt::format("cluster.nodes: '{}' is not NAME=ADDRESS; write a list such as "
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
    if (auto reached = check_reached(named); !reached) return tl::unexpected(reached.error());
    Epoch epoch = {
        .number = 1, .replicas = replicas, .seed = seed, .page_bytes = page_bytes, .members = {}};
    for (const NamedNode& node : named) epoch.members.push_back({node_id(node.name), 0});
    epoch.give_slots();
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
