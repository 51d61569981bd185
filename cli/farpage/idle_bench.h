#pragma once

#include <cstdint>

#include "base/status.h"
#include "cli/client/node_connection.h"

namespace farpage {

struct IdleBenchOptions {
  uint64_t clients = 1000;
  ConnectOptions connect;

  Result<void> validate() const;
};

// Opens the clients, says "ready" on standard output, and keeps them until standard input ends or a
// signal comes. An error if the node has lost one of them meanwhile.
Result<void> run_idle_bench(const IdleBenchOptions& options);

}  // namespace farpage
