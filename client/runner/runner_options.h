#pragma once

#include <cstdint>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"

namespace farpage {

// Keys of the table [client]: the threads that move a client's pages.
struct RunnerOptions {
  static constexpr uint64_t kMostLanes = 64;  // node.max_lanes, unless the node says more
  static constexpr uint64_t kMostDepth = 65'536;
  static constexpr uint64_t kMostSpinUs = 1'000'000;

  uint64_t lanes = 2;          // each with a thread of its own
  uint64_t queue_depth = 256;  // under way at one time at each; more are refused (kExhausted)
  uint64_t spin_us = 100;      // how long a thread looks for what it waits for before it sleeps

  Result<void> validate() const;
};
std::vector<ConfigField> fields(RunnerOptions& options);

}  // namespace farpage
