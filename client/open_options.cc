#include "client/open_options.h"

#include <fmt/format.h>

#include "backends/backends.h"
#include "client/metrics.h"
#include "net/address/address.h"

namespace farpage {

std::vector<ConfigField> fields(OpenOptions& options) {
  auto all = fields(options.client);
  all.insert(
      all.end(),
      {{"node", &options.node}, {"backend", &options.backend}, {"embedded", &options.embedded}});
  const auto of_lanes = fields(options.lanes);
  all.insert(all.end(), of_lanes.begin(), of_lanes.end());
  return all;
}

namespace {

Result<OpenOptions> take(Result<Config> config) {
  if (!config) return tl::unexpected(config.error());
  OpenOptions options;
  const auto read = options.read(*config).and_then([&] { return config->finish(); }).and_then([&] {
    return options.validate();
  });
  if (!read) return tl::unexpected(read.error());
  return options;
}

}  // namespace

Result<OpenOptions> OpenOptions::from_file(const std::string& path,
                                           std::span<const std::string> overrides) {
  return take(Config::load(path, overrides));
}

Result<OpenOptions> OpenOptions::from_text(std::string_view toml,
                                           std::span<const std::string> overrides) {
  return take(Config::parse(toml, "configuration", overrides));
}

Result<void> OpenOptions::read(Config& config) {
  return config.read("client", fields(*this))
      .and_then([&] { return config.read("ahead", fields(ahead)); })
      .and_then([&] { return config.read("gpu", fields(gpu)); })
      .and_then([&] { return config.read("embedded", fields(embedded_node)); })
      .and_then([&] { return config.read("cluster", fields(cluster)); })
      .and_then([&] { return config.read("etcd", fields(etcd)); })
      .and_then([&] { return config.read("security", fields(security)); })
      .and_then([&] { return backends.read_client(config); });
}

Result<void> OpenOptions::validate() const {
  return validate_use().and_then([&] { return validate_nodes(); });
}

Result<void> OpenOptions::validate_use() const {
  return client.validate()
      .and_then([&] { return check_metrics(client.metrics_listen, "client.metrics_listen"); })
      .and_then([&] { return lanes.validate(); })
      .and_then([&] { return ahead.validate(); })
      .and_then([&] { return gpu.validate(); })
      .and_then([&] { return security.validate(); });
}

Result<void> OpenOptions::validate_nodes() const {
  const int ways =
      int{!node.empty()} + int{cluster.is_given()} + int{etcd.is_given()} + int{embedded};
  if (ways == 0) {
    return fail(Code::kInvalid,
                "no memory node is named: set client.node to the address of one, cluster.nodes to "
                "a list, etcd.endpoints to those of a fleet, or client.embedded = true for a node "
                "inside this process");
  }
  if (ways > 1) {
    return fail(Code::kInvalid,
                "client.node (--node), cluster.nodes, etcd.endpoints and client.embedded each say "
                "which nodes there are: leave out all but one");
  }
  if (etcd.is_given()) return etcd.load().map([](const etcd::Access&) {});
  const auto fits = [this](const Address& address) {
    return choose_backend(backend, address).map([](const BackendRegistration*) {});
  };
  if (embedded) {
    return embedded_node.validate().and_then([&] { return fits({"of the node itself", "", 0}); });
  }
  if (!cluster.is_given()) return parse_address(node).and_then(fits);
  if (auto epoch = cluster.epoch(); !epoch) return tl::unexpected(epoch.error());
  return cluster.list().and_then([&](const std::vector<NamedNode>& named) -> Result<void> {
    for (const NamedNode& each : named) {
      if (auto valid = fits(each.address); !valid) return valid;
    }
    return {};
  });
}

}  // namespace farpage
