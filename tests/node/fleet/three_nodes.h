#pragma once

#include "tests/node/raw_client.h"

namespace farpage {

// Three nodes whose membership is a list.
inline SimClusterOptions three_nodes(uint64_t replicas = 2) {
  SimClusterOptions options;
  options.nodes = 3;
  options.replicas = replicas;
  return options;
}

// The members have reached each other.
inline void settle(RawClient& client) {
  client.run_for(100 * kMillisecond);
}

}  // namespace farpage
