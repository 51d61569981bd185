#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "control/messages.h"
#include "sim/network/world.h"

namespace farpage {

// Carries messages between the hosts of a simulated cluster, which are known by their numbers.
struct SimWire {
  sim::World& world;
  uint64_t min_ns;
  uint64_t max_ns;
  std::set<std::pair<size_t, size_t>> parted = {};  // pairs between which nothing passes
  uint64_t messages = 0;                            // requests, so far
  std::function<void(size_t host, const Reply& reply)> answers =
      nullptr;  // told of each, as it is sent

  static std::pair<size_t, size_t> pair(size_t a, size_t b) {
    return {std::min(a, b), std::max(a, b)};
  }
  uint64_t delay() const { return world.random_between(min_ns, max_ns); }
  bool passes(size_t a, size_t b) const { return !parted.contains(pair(a, b)); }
};

}  // namespace farpage
