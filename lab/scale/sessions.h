#pragma once

#include <cstdint>

namespace farpage {

// Cost of idle clients in a fleet of real nodes and real clients, each client with one lane and no
// staging, in virtual time.
struct Sessions {
  uint64_t nodes = 0;
  uint64_t clients = 0;
  // Of the heap, both ends and the simulation's own part of it; 0 where the allocator does not say.
  uint64_t heap_bytes_per_client = 0;
  double renewals_per_node_and_s = 0;  // also of the other nodes
  uint64_t busiest_node = 0;           // renewals in that time
  uint64_t idlest_node = 0;
};
Sessions measure_sessions(uint64_t nodes, uint64_t clients, uint64_t seed);

}  // namespace farpage
