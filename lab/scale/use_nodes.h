#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "tier/client.h"

namespace farpage {

// Has the client dial every node, by keys that nobody has put: each node is the primary of some of
// them.
inline void use_nodes(Client& client, uint64_t nodes, uint64_t seed) {
  constexpr uint64_t kKeysOfEach = 32;
  Random random(seed);
  std::vector<PageKey> keys(kKeysOfEach * nodes);
  for (PageKey& key : keys) {
    key.low = random.next();
    key.high = random.next();
  }
  (void)client.remove(keys, client.clock().now_ns() + kSecond).wait();
}

}  // namespace farpage
