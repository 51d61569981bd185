#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/runtime.h"
#include "base/turn_timer.h"
#include "control/link.h"
#include "node/fleet/foreign_pages.h"
#include "node/fleet/node_epoch.h"
#include "node/store/page_store.h"

namespace farpage {

// Tells other members which of the pages that lie here are theirs. All that ask share one walk
// through the slots, in turns: it asks the placement once for each page, and puts the slot on the
// list of each holder that waits. The walk goes round (a circular scan): a list begins at the slot
// that the walk has reached when its member first asks, and is whole when the walk comes there
// again. Pages that come meanwhile come by puts, which reach all holders, or by fills from members
// that the others ask too.
//
// A list has 4 bytes for each page that was not told yet; all lists together have no more than four
// bytes a slot and replica. On the runtime's thread.
class Holdings {
 public:
  Holdings(Runtime& runtime, PageStore& store, const NodeEpoch& epoch, ForeignPages& foreign);

  // The node has entered epoch(), and `foreign` begins: nothing of the lists is true any more.
  void begin_epoch();

  // Of this epoch. A cursor that was not given out: a refusal that says to begin at 0. Takes some
  // 0.1 ms, however much there is to tell, and walks through nothing itself.
  Reply answer(ClientId session, NodeId asker, const HoldingsRequest& request);
  void disconnected(ClientId session);

 private:
  struct List {
    ClientId session = 0;
    uint64_t since = 0;
    // Of the member in the epoch before this one; what it held there it has.
    std::optional<Placement::Holder> before = {};
    uint64_t whole_at = 0;            // the walk has come round
    std::deque<uint32_t> slots = {};  // those of the last answer, and those that are not told yet
    size_t told = 0;                  // of the last answer
    uint64_t cursor = 0;              // that it answered
    uint64_t next = 0;                // the cursor that it gave out
  };

  // `asker`: its place among the members.
  HoldingsReply of_keys(size_t asker, const std::vector<PageKey>& keys) const;
  std::unique_ptr<List> begin(ClientId session, NodeId asker, uint64_t since) const;
  HoldingsReply tell(List& list, const Placement::Holder& asker) const;
  void turn();
  uint64_t last_end() const;
  void collect(uint64_t at, uint32_t slot, const PageHeader& page);

  Runtime& runtime_;
  PageStore& store_;
  const NodeEpoch& epoch_;
  ForeignPages& foreign_;
  std::vector<std::unique_ptr<List>> lists_;  // by place among the members; null: it has not asked
  uint64_t walked_ = 0;                       // slots, since the epoch began
  TurnTimer timer_;
};

}  // namespace farpage
