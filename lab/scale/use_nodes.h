#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "tier/client.h"

namespace farpage {

inline std::vector<PageKey> random_keys(uint64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<PageKey> keys(count);
  for (PageKey& key : keys) {
    key.low = random.next();
    key.high = random.next();
  }
  return keys;
}

// Has the client dial every node, by keys that nobody has put: each node is the primary of some of
// them.
inline void use_nodes(Client& client, uint64_t nodes, uint64_t seed) {
  constexpr uint64_t kKeysOfEach = 32;
  (void)client.remove(random_keys(kKeysOfEach * nodes, seed), client.clock().now_ns() + kSecond)
      .wait();
}

}  // namespace farpage
