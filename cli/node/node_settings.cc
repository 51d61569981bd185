#include "cli/node/node_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/config/config.h"
#include "cli/node/tenant_tokens.h"
#include "client/metrics.h"
#include "net/address/advertised_address.h"
#include "net/security_options.h"

namespace farpage {
namespace {

// Where the list says that this node is, unless it is told otherwise.
Result<void> find_itself(NodeCluster& cluster, NodeOptions& options, bool told_where,
                         bool has_etcd) {
  if (!cluster.is_given()) return {};
  if (has_etcd) {
    return fail(Code::kInvalid, "cluster.nodes and etcd.endpoints are both given: leave one out");
  }
  cluster.page_bytes = options.page_bytes;
  if (auto epoch = cluster.epoch(); !epoch) return tl::unexpected(epoch.error());
  const auto list = cluster.list();
  const auto self = std::find_if(list->begin(), list->end(),
                                 [&](const NamedNode& node) { return node.name == cluster.name; });
  if (self == list->end()) {
    return fail(
        Code::kInvalid,
        fmt::format("cluster.nodes has no node '{}': set cluster.name to the one that this node is",
                    cluster.name));
  }
  if (!told_where) options.listen = format_address(self->address);
  return {};
}

Result<SocketRights> read_socket_rights(const NodeSettings& settings) {
  const NodeOptions& options = settings.node;
  if (settings.listen.is_tcp() && !(options.socket_mode + options.socket_group).empty()) {
    return fail(
        Code::kInvalid,
        fmt::format(
            "node.socket_mode and node.socket_group apply to a Unix socket, and this node listens "
            "on {}: leave them out; over TCP the table [security] decides who may connect",
            format_address(settings.listen)));
  }
  return SocketRights::parse(options.socket_mode, options.socket_group);
}

// Where others find this node, which etcd tells them.
Result<void> check_told_address(const NodeSettings& settings, const etcd::Access& etcd) {
  const std::string& told = settings.cluster.address;
  auto address = told.empty() ? Result<Address>(settings.listen) : parse_address(told);
  if (!address) return fail(Code::kInvalid, "cluster.address: " + address.error().message);
  if (told.empty()) {
    if (address->port == 0) address->port = 1;  // the one that it gets is told
    if (auto leads = check_advertised(*address, "node.listen, for want of a cluster.address");
        !leads) {
      return fail(Code::kInvalid, leads.error().message + " (cluster.address)");
    }
  } else if (auto leads = check_advertised(*address, "cluster.address"); !leads) {
    return leads;
  }
  const auto elsewhere = std::ranges::find_if_not(etcd.endpoints, is_of_one_machine);
  if (!address->is_tcp() || !is_of_one_machine(*address) || elsewhere == etcd.endpoints.end()) {
    return {};
  }
  return fail(
      Code::kInvalid,
      fmt::format(
          "{} is {}, which every other host takes for itself, and etcd.endpoints has another host "
          "({}): set cluster.address to the address at which others reach this "
          "node",
          told.empty() ? "node.listen" : "cluster.address", format_address(*address),
          format_host_port(*elsewhere)));
}

// Further needs of a member of a fleet in etcd.
Result<void> check_etcd(const NodeSettings& settings) {
  if (!settings.etcd.is_given()) return {};
  const NodeCluster& cluster = settings.cluster;
  if (cluster.name.empty() || cluster.name.find('/') != std::string::npos) {
    return fail(Code::kInvalid,
                "etcd.endpoints is given without a cluster.name: give this node a name of its own, "
                "without a '/'");
  }
  if (cluster.replicas == 0 || cluster.replicas > kMaxReplicas) {
    return fail(Code::kInvalid, fmt::format("cluster.replicas is {}: choose 1 to {}",
                                            cluster.replicas, kMaxReplicas));
  }
  return settings.etcd.validate()
      .and_then([&] { return settings.etcd.load(); })
      .and_then([&](const etcd::Access& access) { return check_told_address(settings, access); });
}

// Tokens tell tenants apart, so all ways to this node and to others are such as show one.
Result<void> check_shown(const NodeSettings& settings) {
  std::vector<Address> ways = {settings.listen};
  if (!settings.cluster.address.empty()) {
    auto told = parse_address(settings.cluster.address);
    if (!told) return fail(Code::kInvalid, "cluster.address: " + told.error().message);
    ways.push_back(std::move(*told));
  }
  auto list = settings.cluster.list();
  if (!list) return tl::unexpected(list.error());
  for (const NamedNode& node : *list) ways.push_back(node.address);
  const auto silent = std::ranges::find_if_not(ways, &Address::is_tcp);
  if (silent == ways.end()) return {};
  return fail(Code::kInvalid,
              fmt::format("tenants are told apart by their tokens, which clients do not send on "
                          "the Unix socket {}: write tcp://HOST:PORT",
                          silent->path));
}

// Each with a token of its own; none is another's, or the node's own.
Result<void> load_tenants(NodeSettings& settings, const NodeSecurity& security) {
  if (settings.tenants.empty()) return {};
  if (auto valid = validate(settings.tenants, settings.node); !valid) return valid;
  if (auto shown = check_shown(settings); !shown) return shown;
  auto tokens = TenantTokens::load(security.token_file, settings.tenants);
  if (!tokens) return tl::unexpected(tokens.error());
  settings.credentials.token = tokens->own;
  settings.credentials.tenants = tokens->tenants;
  settings.token_watch = std::move(tokens->watch);
  return {};
}

}  // namespace

Result<NodeSettings> load_settings(const NodeArguments& arguments,
                                   const std::function<bool(const std::string&)>& given) {
  NodeSettings settings;
  NodeOptions& options = settings.node;
  NodeSecurity security;
  Result<Config> config = Config::load(arguments.config, arguments.overrides);
  if (!config) return tl::unexpected(config.error());
  const std::string default_listen = std::exchange(options.listen, "");
  if (auto read = config->read("node", fields(options)); !read) return tl::unexpected(read.error());
  if (auto read = config->read("cluster", fields(settings.cluster)); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = config->read("etcd", fields(settings.etcd)); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = config->read("security", fields(security)); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = settings.backends.read_node(*config); !read) {
    return tl::unexpected(read.error());
  }
  for (const std::string& name : config->names_below("tenant")) {
    TenantOptions& tenant = settings.tenants.emplace_back();
    tenant.name = name;
    if (auto read = config->read("tenant." + name, fields(tenant)); !read) {
      return tl::unexpected(read.error());
    }
  }
  if (auto finished = config->finish(); !finished) return tl::unexpected(finished.error());
  if (given("--listen")) options.listen = arguments.listen;
  const bool told_where = !options.listen.empty();
  if (!told_where) options.listen = default_listen;
  if (given("--backend")) options.backend = arguments.backend;
  if (given("--token-file")) security.token_file = arguments.token_file;
  if (given("--state")) options.state = arguments.state;
  if (given("--pool-bytes")) options.pool_bytes = arguments.pool_bytes;
  if (given("--page-bytes")) options.page_bytes = arguments.page_bytes;
  if (auto found = find_itself(settings.cluster, options, told_where, settings.etcd.is_given());
      !found) {
    return tl::unexpected(found.error());
  }
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  settings.backends.ucx.allow_emulated |= arguments.allow_emulated;
  if (auto valid = check_metrics(options.metrics_listen, "node.metrics_listen"); !valid) {
    return tl::unexpected(valid.error());
  }
  auto listen = parse_address(options.listen);
  if (!listen) return tl::unexpected(listen.error());
  settings.listen = std::move(*listen);
  auto rights = read_socket_rights(settings);
  if (!rights) return tl::unexpected(rights.error());
  settings.socket_rights = *rights;
  if (auto valid = security.validate(settings.listen, !settings.tenants.empty()); !valid) {
    return tl::unexpected(valid.error());
  }
  auto credentials = security.load();
  if (!credentials) return tl::unexpected(credentials.error());
  settings.credentials = std::move(*credentials);
  if (auto loaded = load_tenants(settings, security); !loaded)
    return tl::unexpected(loaded.error());
  if (auto valid = check_etcd(settings); !valid) return tl::unexpected(valid.error());
  auto own = security.load_as_client(settings.credentials);
  if (!own) return tl::unexpected(own.error());
  for (const WatchedSecret<SharedToken>& token : settings.credentials.tenants) {
    settings.peers.push_back({token, own->tls});
  }
  if (settings.peers.empty()) settings.peers.push_back(std::move(*own));
  return settings;
}

}  // namespace farpage
