#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/runtime.h"
#include "base/turn_timer.h"
#include "node/fleet/member_link.h"
#include "node/fleet/node_epoch.h"
#include "node/store/page_store.h"

namespace farpage {

// Brings pages that this node should hold, and lacks, from the members that hold them (FILL of the
// protocol): all that belongs to it when it has joined, restarted, or lost a link, and single ones
// that it has dropped. Below a bandwidth limit. On the runtime's thread.
class Backfill {
 public:
  struct Counts {
    uint64_t pages = 0;
    uint64_t bytes = 0;
    uint64_t repairs = 0;  // among the pages
    // Known to be lacking, on their way or before it; at least 1 until every member has told what
    // it holds.
    uint64_t left = 0;
  };

  Backfill(Runtime& runtime, PageStore& store, const NodeEpoch& epoch, uint64_t bytes_per_s,
           std::function<MemberLink*(NodeId)> peer, std::function<void()> told);

  // Another epoch, with these other members: what is on its way is not applied any more, and none
  // has told what it holds. From now on, until a link is new, each is asked for what this node did
  // not hold in the epoch before, if it has filled itself there.
  void begin_epoch(std::set<NodeId> others);
  // Everything of this node's that the member holds; `link_is_new`: also what this node held in
  // the epoch before, for puts may have missed it since.
  void fill_from(NodeId member, bool link_is_new);
  // These keys, from any other member that holds them.
  void repair(std::span<const PageKey> keys);
  // Pages on their way are not applied any more.
  void abort();

  Counts counts() const;

 private:
  struct BackfillStream {
    NodeId from = 0;
    EpochTag epoch = {};
    std::vector<PageKey> keys = {};  // empty: all
    bool repairs = false;
    size_t tries = 0;  // before this pass, of its keys
    bool asking = false;
    bool told_all = false;
    bool over = false;
    uint64_t since = 0;  // as in HoldingsRequest
    uint64_t cursor = 0;
    uint64_t retry_ns = 0;
    uint64_t patience_ns = 0;  // with a member that still looks
    std::deque<HeldPage> pages = {};
    size_t reading = 0;
    std::vector<HeldPage> failed = {};  // to be read once more
  };
  using BackfillStreamPtr = std::shared_ptr<BackfillStream>;

  bool all_told() const;
  void begin(BackfillStream pass);
  void try_again(const BackfillStreamPtr& pass);
  void turn();
  void turn(const BackfillStreamPtr& pass, uint64_t now_ns);
  void ask(const BackfillStreamPtr& pass, MemberLink& peer);
  void answered(const BackfillStreamPtr& pass, Result<Reply> reply);
  bool lacks(const HeldPage& page) const;
  void read(const BackfillStreamPtr& pass, MemberLink& peer, const HeldPage& page, uint32_t slot);
  void landed(const BackfillStreamPtr& pass, const HeldPage& page, uint32_t slot, Code code,
              const PageReader::Landed& landed);

  Runtime& runtime_;
  PageStore& store_;
  const NodeEpoch& epoch_;
  const uint64_t bytes_per_s_;
  const std::function<MemberLink*(NodeId)> peer_;
  const std::function<void()> told_;
  std::vector<BackfillStreamPtr> passes_;
  std::set<NodeId> members_not_listed_;  // members that have not told all that they hold
  uint64_t number_ = 0;                  // of the epoch
  uint64_t whole_before_ = 0;  // the number of the epoch before, in which it was whole at the end
  bool has_given_up_ = false;  // a page that is its own, in this epoch
  Counts counts_;
  uint64_t next_read_ns_ = 0;  // by the bandwidth limit
  TurnTimer timer_;            // of turn()
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
