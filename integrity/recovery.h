#pragma once

#include <cstdint>

namespace farpage {

// Why a page must be recomputed.
enum class Reason : uint8_t {
  kNone,
  kMiss,         // no such page (or none of the destination's length)
  kStale,        // only versions below min_version, or it changed each time that it was looked at
  kCorrupt,      // what landed was wrong twice, in a slot that the index still names
  kStalled,      // not there by the deadline
  kUnreachable,  // no node to ask, or its view lease has ended
  kSlower,       // it would have come later than its recompute is done
};
inline constexpr int kReasons = 7;

const char* reason_name(Reason reason);

// Replicas of one page, a bit for each, by their rank in its replica set, and one for the node that
// was asked before there was that set.
using Replicas = uint16_t;

constexpr Replicas replica(unsigned rank) {
  return static_cast<Replicas>(1u << rank);
}

// The history of one page so far.
struct PageHistory {
  Replicas asked = 0;
  Replicas under_way = 0;
  Replicas failed = 0;  // an attempt there came to nothing, and another one may not
  Replicas gone = 0;    // attempts there come to nothing for good
  // The last words of those that answered.
  Replicas missed = 0;
  Replicas stale = 0;
  Replicas corrupt = 0;
  uint8_t last = 0;  // the rank that was asked last
  uint8_t attempts = 0;
  bool hedged = false;

  Replicas said() const { return static_cast<Replicas>(missed | stale | corrupt); }
};

// How a page's replicas are now.
struct ReplicaStates {
  Replicas reachable = 0;  // there is a view to read them under, or the first one is on its way
  Replicas open = 0;       // ... and a path, with room for one more
  Replicas trusted = 0;    // their breaker lets an attempt through
  Replicas returning = 0;  // not reachable, since a moment ago, and dialled again
  bool has_view = true;    // of the epoch: what replicas have said counts under it alone
};

struct Recovery {
  enum class Action : uint8_t {
    kLookAgain,    // at the replica that was asked last
    kNextReplica,  // at another one; also the first of all
    kHedge,        // at another one beside the attempt that is under way
    kWait,
    kRecompute,
  };
  Action action = Action::kWait;
  uint8_t rank = 0;               // whom to ask
  Reason reason = Reason::kNone;  // kRecompute

  friend bool operator==(const Recovery&, const Recovery&) = default;
};

// The next step for one page. `slow`: the attempt that is under way takes longer than most, and a
// hedge is allowed. A miss is final only when every replica that can be asked has missed, and none
// of the others is returning; so is the word that the page is stale or corrupt, since one that
// returns may have it as it should be. A page of which no replica has said anything waits for none
// that returns. A breaker holds back only while another replica exists.
Recovery recover(const PageHistory& history, const ReplicaStates& states, bool slow);

// Whether a page's recompute would be done before it comes: half of the peer's reads took longer
// than `typical_ns`, and `ahead` pages of at most `window` at one time are on their way before it.
constexpr bool slower_than_recompute(uint64_t typical_ns, uint64_t ahead, uint64_t window,
                                     uint64_t recompute_ns) {
  return typical_ns + typical_ns * ahead / window > recompute_ns;
}

}  // namespace farpage
