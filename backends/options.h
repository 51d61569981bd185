#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "transport/ucx/ucx_fabric.h"

namespace farpage {

// The table [rdma] of nodes and clients.
struct RdmaOptions {
  std::string devices = {};  // names, ports or IP addresses, with commas; empty: every device
  uint64_t spin_us = 50;     // how long a wait polls before it sleeps

  std::vector<std::string> device_list() const;
};
std::vector<ConfigField> fields(RdmaOptions& options);

// The table [ucx] of a node's configuration, and of a client's.
struct NodeUcx : ucx::UcxOptions {};
std::vector<ConfigField> fields(NodeUcx& options);
struct ClientUcx : ucx::UcxOptions {};
std::vector<ConfigField> fields(ClientUcx& options);

// Options of the backends besides an address, from the tables of their registrations.
struct BackendOptions {
  RdmaOptions rdma = {};
  ucx::UcxOptions ucx = {};

  Result<void> read_node(Config& config);
  Result<void> read_client(Config& config);
};

}  // namespace farpage
