#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"

namespace farpage {

// The table [rdma] of nodes and clients.
struct RdmaOptions {
  std::string devices;    // names or IP addresses, with commas between; empty: every device
  uint64_t spin_us = 50;  // how long a wait polls before it sleeps

  Result<void> validate() const;
  std::vector<std::string> device_list() const;
};
std::vector<ConfigField> fields(RdmaOptions& options);

}  // namespace farpage
