#pragma once

#include <cstddef>

#include "pagetable/epoch.h"
#include "pagetable/placement.h"

namespace farpage::chaos {

// Whether the node is in the key's set in this epoch.
inline bool holds(const Epoch& epoch, NodeId node, const PageKey& key) {
  const Member* member = epoch.find(node);
  return member != nullptr && Placement(epoch).replicas(key).contains(
                                  static_cast<size_t>(member - epoch.members.data()));
}

}  // namespace farpage::chaos
