#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric.h"

namespace farpage::verbs {

struct VerbsOptions {
  // Names of the RDMA devices to use ("mlx5_0"), of ports of theirs ("mlx5_0:2"), or IP addresses,
  // one path each; none: all devices.
  std::vector<std::string> devices = {};
  // How long a wait polls before it sleeps: 0 always sleeps, and costs no core; a large one never
  // does, and costs one.
  uint64_t spin_us = 50;
};

// RDMA by libibverbs and librdmacm: reliable connections, READs from registered pools, WRITEs into
// staging of one peer alone. The device checks every access.
Result<std::unique_ptr<Fabric>> make_verbs_fabric(const VerbsOptions& options);

}  // namespace farpage::verbs
