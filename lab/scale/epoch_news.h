#pragma once

#include <cstdint>

namespace farpage {

struct EpochNewsOptions {
  uint64_t clients = 10'000;
  uint64_t nodes = 4;  // of which one loses its power
  uint64_t seed = 1;
};

// How an epoch comes to the clients of a fleet, in virtual time: real nodes and clients that rest,
// each with a link to each node, and one register.
struct EpochNews {
  uint64_t clients = 0;
  uint64_t median_ns = 0;          // from the epoch's beginning until a client is in it
  uint64_t last_ns = 0;            // until the last one is
  uint64_t reads = 0;              // of the register by clients, in the `view_lease` after it began
  uint64_t reads_before = 0;       // in ten times as long before
  uint64_t node_reads_before = 0;  // … by nodes
  double served = 0;               // part of the clients that had valid views all the time
};
EpochNews measure_epoch_news(const EpochNewsOptions& options);

}  // namespace farpage
