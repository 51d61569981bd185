#pragma once

#include <cstdint>
#include <functional>

#include "base/runtime.h"
#include "base/turn_timer.h"
#include "node/fleet/node_epoch.h"
#include "node/store/page_store.h"
#include "pagetable/lost_keys.h"

namespace farpage {

// Kills the pages that this node does not hold any more in the epoch that it has entered (protocol
// rule 8), in turns: however large the pool is, renewals and puts go on between them. Until all are
// killed the node has not confirmed the epoch, so that no newer version of such a page is
// acknowledged anywhere: a client that still has a view of the epoch before may read it, and other
// clients do not ask for it here. On the runtime's thread.
class ForeignPages {
 public:
  // `view_ns`: what a view lasts. `done`: none is left.
  ForeignPages(Runtime& runtime, PageStore& store, const NodeEpoch& epoch, uint64_t view_ns,
               std::function<void()> done);

  // The node has entered epoch().
  void begin_epoch();
  // Before the pages in these slots are told to another member, which is told only of what stays as
  // it is in this epoch.
  void kill(uint32_t first, uint32_t end);

 private:
  void turn();
  // Up to the slot at which the walk is to be now.
  void kill_some(uint64_t now_ns, uint64_t until_ns);

  Runtime& runtime_;
  PageStore& store_;
  const NodeEpoch& epoch_;
  const uint64_t walk_ns_;  // that it should take
  const std::function<void()> done_;
  LostKeys lost_;
  uint32_t next_;  // slots before it have been looked at
  uint64_t began_ns_ = 0;
  uint64_t last_turn_ns_ = 0;
  TurnTimer timer_;
};

}  // namespace farpage
