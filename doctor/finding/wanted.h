#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "doctor/finding/backend_set.h"
#include "net/address/address.h"

namespace farpage::doctor {

// The abilities that the user wants of this host.
struct Wanted {
  BackendSet asked = BackendSet::with(&BackendCheck::runs_anywhere);  // at least one
  BackendSet built = BackendSet::with(&BackendCheck::runs_anywhere);
  std::string ucx_module;     // the file with the backend ucx, which the program loads
  bool names_pool = false;    // false: pool_bytes is only the default
  uint64_t pool_bytes = 0;    // for pages
  uint64_t memory_bytes = 0;  // what a node takes for that pool
  uint64_t client_bytes = 0;  // what its clients may make it hold beside the pool
  // Both, of a node with a pool of so many bytes; nothing: it would have no room for a page.
  std::function<std::optional<uint64_t>(uint64_t pool_bytes)> needed_bytes;
  uint64_t max_clients = 0;
  uint64_t staging_bytes = 0;  // of each client that puts
  std::optional<Address> listen;
  std::vector<std::string> rdma_devices;  // as rdma.devices names them; none: all that there are
  std::string node_command = "farpage node";  // to which commands that mend add their options
};

}  // namespace farpage::doctor
