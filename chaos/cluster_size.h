#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "pagetable/epoch.h"

namespace farpage::chaos {

// Whether a campaign can have so many.
inline Result<void> check_cluster_size(uint64_t clients, uint64_t nodes, uint64_t replicas) {
  if (clients == 0 || clients > 64) {
    return fail(Code::kInvalid, fmt::format("{} clients: choose 1 to 64", clients));
  }
  if (nodes == 0 || nodes > 16) {
    return fail(Code::kInvalid, fmt::format("{} nodes: choose 1 to 16", nodes));
  }
  const uint64_t most = std::min<uint64_t>(nodes, kMaxReplicas);
  if (replicas == 0 || replicas > most) {
    return fail(Code::kInvalid,
                fmt::format("{} replicas on {} nodes: choose 1 to {}", replicas, nodes, most));
  }
  return {};
}

}  // namespace farpage::chaos
