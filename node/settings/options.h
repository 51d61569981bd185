#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "base/units.h"
#include "node/store/eviction.h"
#include "pagetable/geometry.h"

namespace farpage {

// The table [node] of a configuration.
struct NodeOptions {
  std::string listen = "/run/farpage/node.sock";  // an address of net/address/address.h
  std::string socket_mode;   // of a Unix socket, as "0660"; empty: 0600, with socket_group 0660
  std::string socket_group;  // group that may connect too; empty: none
  std::string backend;       // shm or tcp; empty: by the address
  uint64_t io_threads = 1;   // tcp: that move bytes
  std::string state = "/var/lib/farpage/node.state";  // the last epoch; synced before it is used
  uint64_t least_epoch = 0;  // where that file was lost: later than any epoch that it had
  uint64_t pool_bytes = 4 * kGiB;
  uint64_t page_bytes = 64 * kKiB;             // the longest page; one size of slot
  bool evict = true;                           // false: a put is refused when the pool is full
  std::string eviction = std::string(kClock);  // what goes when it is: node/store/eviction.h
  uint64_t reuse_ms = 100;                     // `read_window`: the most for one page
  uint64_t lease_ms = 2'000;  // `view_lease`: how long a client reads without hearing from the node
  uint64_t max_clients = 1'024;
  uint64_t max_lanes = 64;                  // of one client
  uint64_t max_staging_bytes = 256 * kMiB;  // of one client
  // That all clients together can make the node hold: their staging above all. 0: a quarter of
  // pool_bytes, and twice max_staging_bytes at the least, for each tenant.
  uint64_t staging_budget_bytes = 0;
  std::string metrics_listen;              // where Prometheus asks; empty: nowhere
  uint64_t max_requests_per_s = 20'000;    // of one client; what is above it waits
  uint64_t fill_bytes_per_s = 256 * kMiB;  // that a member reads of others to fill itself
  uint64_t scrub_bytes_per_s = 32 * kMiB;  // of its own pages that it looks at unasked; 0: none
  // For who makes the node: no key sets it, for pages are the same to read in both.
  SlotLayout slot_layout = SlotLayout::kTogether;

  Result<void> validate() const;
  // The budget, of a node with so many tenants; 0: it has none.
  uint64_t client_budget_bytes(size_t tenants) const;
  // At most, for what ranks pages beside the pool, of a node with so many tenants; 0: it has none.
  uint64_t eviction_bytes(size_t tenants) const;
};
std::vector<ConfigField> fields(NodeOptions& options);

}  // namespace farpage
