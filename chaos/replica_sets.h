#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "pagetable/epoch.h"
#include "pagetable/placement.h"

namespace farpage::chaos {

// Whether the node is in the key's set in this epoch.
inline bool holds(const Epoch& epoch, NodeId node, const PageKey& key) {
  const Member* member = epoch.find(node);
  return member != nullptr && Placement(epoch).replicas(key).contains(
                                  static_cast<size_t>(member - epoch.members.data()));
}

// Whether some node has kept the page in all of these epochs: it is in the key's set in each, and
// `lost_nothing` holds for its number among all nodes.
template <typename LostNothing>
bool has_keeper(const Epoch& all, std::span<const Epoch> epochs, const PageKey& key,
                const LostNothing& lost_nothing) {
  for (size_t node = 0; node < all.members.size(); ++node) {
    const auto is_holder = [&](const Epoch& epoch) {
      return holds(epoch, all.members[node].node, key);
    };
    if (lost_nothing(node) && std::ranges::all_of(epochs, is_holder)) return true;
  }
  return false;
}

}  // namespace farpage::chaos
