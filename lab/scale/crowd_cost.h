#pragma once

#include <cstdint>

namespace farpage {

// What one real memory node does for one client beside very many that rest, in virtual time: the
// processor time of the thread, the simulation's part and one busy client's included. A node that
// walked through its clients would need more for each the more there are.
struct CrowdCost {
  uint64_t clients = 0;                // with the busy one
  uint64_t heap_bytes_per_client = 0;  // at the node: a session with no lane and no staging
  uint64_t hello_ns = 0;               // of one client
  uint64_t renewal_ns = 0;
  uint64_t put_ns = 0;  // of one page by the busy client, one after the other
  uint64_t status_ns = 0;
};
// `clients`: at least 2.
CrowdCost measure_crowd(uint64_t clients, uint64_t seed);

}  // namespace farpage
