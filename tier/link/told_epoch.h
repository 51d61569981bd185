#pragma once

#include <algorithm>
#include <cstdint>

#include "control/messages.h"
#include "pagetable/epoch.h"

namespace farpage {

// The epoch that a node has told of in full. The node's word: it need not be valid.
inline Epoch epoch_of(const EpochReply& told) {
  Epoch epoch{told.view.number, told.replicas, told.seed, told.page_bytes, {}};
  for (const EpochMember& member : told.members) {
    epoch.members.push_back({member.node, member.incarnation, member.leaving,
                             static_cast<uint16_t>(std::min<uint32_t>(member.slot, kNoSlot))});
  }
  return epoch;
}

}  // namespace farpage
