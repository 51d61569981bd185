#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "integrity/recovery.h"
#include "pagetable/placement.h"
#include "tier/fetch/page_copier.h"
#include "tier/fetch/page_lookup.h"
#include "tier/request/page_request.h"
#include "transport/counter.h"

namespace farpage {

struct LanePeer;

// The lane's state of one fetch; recycled.
struct FetchState {
  std::span<const PageRequest> requests;
  std::span<PageVerdict> verdicts;
  uint64_t started_ns = 0;
  uint64_t deadline_ns = 0;
  size_t next = 0;  // the first request that has not been begun
  // Before it, those that wait for nodes that are silent or out of reach, with no place in the
  // lane, and how far the lane has looked through them.
  size_t put_off = 0;
  size_t put_off_at = 0;
  size_t pending = 0;  // without a verdict
  size_t held = 0;     // destinations whose operation has not ended
  uint64_t lent = 0;   // hedge places that its pages lie in, a bit for each
  FetchOptions options;
  bool is_counted = false;    // the counter was asked for
  CompletionCounter counter;  // from then on; it has what was before

  // Most fetches have no watcher.
  CompletionCounter& counted() {
    if (is_counted) return counter;
    is_counted = true;
    const auto given = [this](Verdict verdict) {
      return static_cast<uint32_t>(std::ranges::count(verdicts, verdict, &PageVerdict::verdict));
    };
    counter.reset(static_cast<uint32_t>(requests.size()));
    counter.arrive(Outcome::kOk, given(Verdict::kReady));
    counter.arrive(Outcome::kFailed, given(Verdict::kRecompute));
    return counter;
  }
};

// The outcome of a page in flight.
struct PageFlags {
  bool reads_page : 1 = false;  // otherwise its buckets of the index
  bool whole : 1 = false;       // what landed is the page that is wanted
  bool broken : 1 = false;      // an operation did not end well
  bool held : 1 = false;        // its page has its verdict already
  bool waiting : 1 = false;     // for begin_again()
  bool goes_on : 1 = false;     // for begin_steps()
  bool hedge : 1 = false;       // the page's second attempt
  bool former : 1 = false;      // of an epoch that has ended
  bool looked_up : 1 = false;   // the details have a lookup
  bool detailed : 1 = false;    // there are details
  bool aside : 1 = false;       // its read has ended in an earlier turn, its check had not
  bool apart : 1 = false;       // its header and its payload are read by an operation each
  bool straight : 1 = false;    // its payload is checked where it lies, and copied from there
  bool parked : 1 = false;      // `waiting`, and counted as such
  uint16_t unused : 2 = 0;

  // All of them at once.
  friend bool operator==(const PageFlags& a, const PageFlags& b) {
    return std::bit_cast<uint16_t>(a) == std::bit_cast<uint16_t>(b);
  }
};

// A page on its way from one node: one attempt, with landing places of its own for header and
// buckets. One line of the cache, and all that a page needs which lies where the lane expects it at
// the first node that it asks. Reset as a whole, in one place.
struct alignas(64) PageInFlight {
  // Among `outstanding`: its operations have ended, and its payload is being checked.
  static constexpr uint8_t kCheck = 0x80;

  FetchState* fetch = nullptr;           // null: free
  const PageRequest* request = nullptr;  // one of the fetch's
  LanePeer* peer = nullptr;              // null: nowhere now
  uint64_t bytes = 0;                    // of the payload
  uint64_t posted_ns = 0;
  Version version = 0;      // that its location names; 0: none is known
  uint32_t slot = 0;        // that is read
  uint32_t step = 0;        // the number that its operations carry
  uint16_t index = 0;       // its own, among the lane's; for good
  uint8_t outstanding = 0;  // a bit for each operation that has not ended, and for its check
  uint8_t failures = 0;     // operations that were refused
  uint8_t rank = 0;         // of the peer, among the page's replicas
  PageFlags is;

  bool is_read() const { return (outstanding & ~kCheck) != 0; }
  // Among the fetch's requests.
  uint32_t number() const { return static_cast<uint32_t>(request - fetch->requests.data()); }
};
static_assert(sizeof(PageInFlight) == 64);

// Further state of a page that several nodes may have, or that was not where the lane expected it.
// Reset when the page comes to need it.
struct PageDetails {
  static constexpr uint16_t kNoTwin = UINT16_MAX;

  PageHistory history;  // of the page; the first attempt's alone
  ReplicaSet replicas;
  Slice landing;                       // of a hedge: its place
  uint16_t twin = kNoTwin;             // the page's other attempt
  uint8_t place = 0;                   // of a hedge
  uint8_t looks = 0;                   // at nodes before this one
  const CopySource* source = nullptr;  // that the page was copied from, once at most
  PageLookup lookup;
};

}  // namespace farpage
