#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/options.h"
#include "base/status.h"
#include "client/fleet/cluster_options.h"
#include "client/fleet/etcd_fleet.h"
#include "net/address/address.h"
#include "net/dial.h"
#include "net/listener.h"
#include "net/secrets/secret_watch.h"
#include "net/socket_rights.h"
#include "node/settings/options.h"
#include "node/tenants.h"

namespace farpage {

struct NodeArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string listen;
  std::string backend;
  bool allow_emulated = false;
  std::string token_file;
  std::string state;
  uint64_t pool_bytes = 0;
  uint64_t page_bytes = 0;
  int ready_fd = -1;
};

struct NodeSettings {
  NodeOptions node;
  NodeCluster cluster;
  NodeEtcd etcd;
  BackendOptions backends;
  std::vector<TenantOptions> tenants;
  Address listen;
  SocketRights socket_rights;
  NodeCredentials credentials;
  // For its own connections to other nodes: of each tenant, or, without tenants, the node's.
  std::vector<ClientCredentials> peers;
  std::shared_ptr<SecretWatch> token_watch;  // of tenants' tokens; null without

  bool is_member() const { return cluster.is_given() || etcd.is_given(); }
};

// The settings of the configuration and the command line together, or what is wrong with them.
// `given`: whether this option stands on the command line.
Result<NodeSettings> load_settings(const NodeArguments& arguments,
                                   const std::function<bool(const std::string&)>& given);

}  // namespace farpage
