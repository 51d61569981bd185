#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mapping.h"
#include "base/status.h"
#include "integrity/recovery.h"
#include "pagetable/guards.h"
#include "tier/fleet_link.h"
#include "tier/hedge_places.h"
#include "tier/lane.h"
#include "tier/lane_counters.h"
#include "tier/lane_peer.h"
#include "tier/operation_tag.h"
#include "tier/page_lookup.h"
#include "tier/page_request.h"

namespace farpage {

// What the lane keeps of one fetch; recycled.
struct FetchState {
  std::span<const PageRequest> requests;
  std::span<PageVerdict> verdicts;
  uint64_t started_ns = 0;
  uint64_t deadline_ns = 0;
  size_t next = 0;     // the first request that has not been begun
  size_t pending = 0;  // without a verdict
  size_t held = 0;     // destinations whose operation has not ended
  uint64_t lent = 0;   // hedge places that its pages lie in, a bit for each
  FetchOptions options;
  bool in_use = false;
  CompletionCounter counter;
};

// Drives fetches through a window of attempts: each is one page on its way from one node, with
// landing places of its own for header and buckets. An attempt is free again only when every
// operation of it has ended, so a page's destination never has two (protocol rule 4). A hedge is a
// second attempt for a page, the twin of the first, and lands in a place of the lane's own.
class LaneEngine {
 public:
  // Waits for one of the nodes to open a path.
  static Result<std::unique_ptr<LaneEngine>> create(const std::shared_ptr<FleetLink>& fleet);
  ~LaneEngine();

  void reserve_fetches(uint32_t more);
  FetchState* start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                    uint64_t deadline_ns, const FetchOptions& options);
  void recycle(FetchState* fetch);
  // False: nothing moved, so that there is something to wait for.
  bool progress();
  void wait_done(FetchState* fetch);
  bool wait_released(FetchState* fetch, uint64_t deadline_ns);
  void wait_moved(uint64_t until_ns);

  LaneStats stats() const { return counters_.stats(); }
  const std::byte* mapped_payload(const PageKey& key) const;

 private:
  static constexpr uint32_t kWindow = Lane::kWindow;
  static constexpr size_t kPollBatch = 64;
  static constexpr uint16_t kNoTwin = UINT16_MAX;
  // An operation that is refused this often would be refused for ever.
  static constexpr uint8_t kMostFailures = 3;
  static constexpr uint8_t kNoRank = kMaxReplicas;  // of one that was asked in an epoch before

  // What an attempt knows of the page that it is for. Reset as a whole, in free_attempt() alone.
  struct PageInFlight {
    FetchState* fetch = nullptr;  // null: free
    LanePeer* peer = nullptr;     // null: nowhere now
    uint32_t page = 0;
    uint8_t outstanding = 0;  // a bit for each operation that has not ended
    uint8_t failures = 0;     // operations that were refused
    bool broken = false;      // one of them did not end well
    bool held = false;        // its page has its verdict already
    bool waiting = false;     // for begin_again()
    bool hedge = false;       // the page's second attempt
    uint8_t place = 0;        // of a hedge
    uint8_t rank = 0;         // of the peer, among the page's replicas
    uint8_t looks = 0;        // at nodes before this one
    uint16_t twin = kNoTwin;  // the page's other attempt
    uint32_t payload_crc = 0;
    uint64_t bytes = 0;  // of the payload
    uint64_t posted_ns = 0;
    uint64_t epoch = 0;   // the fleet's number that its history and replicas are of
    PageHistory history;  // of the page; the first attempt's alone
  };

  struct Attempt : PageInFlight {
    uint32_t index = 0;  // its own, among the attempts
    uint32_t step = 0;   // counts the times that operations were queued for it, ever
    Slice landing;       // of a hedge: its place
    ReplicaSet replicas;
    PageLookup lookup;
  };

  // What a node's memory is read into, besides the destinations; registered.
  struct Landing {
    PageHeader headers[kWindow];
    Bucket buckets[kWindow][2];
  };

  LaneEngine(std::shared_ptr<FleetLink> fleet, Mapping memory, Region region, HedgePlaces places);

  Landing& landing() const { return *reinterpret_cast<Landing*>(memory_.data()); }
  Slice landing_slice(const void* part, uint64_t bytes) const;
  // Where its payload lands.
  const Slice& destination(const Attempt& attempt) const {
    return attempt.hedge && on(Guard::kOneLandingOneAttempt)
               ? attempt.landing
               : attempt.fetch->requests[attempt.page].destination;
  }

  bool turn();
  void enter_epoch();
  void advance_path(LanePeer& peer);
  Result<void> open_path();
  void drop_former();
  static uint64_t time_left(const FetchState& fetch, uint64_t now_ns) {
    return fetch.deadline_ns - std::min(fetch.deadline_ns, now_ns);
  }
  uint64_t window_bytes() const;
  // Where there are several nodes, one that is silent leaves room for the others.
  size_t most_at_one() const { return std::clamp<size_t>(window_ / 2, 1, kWindow / 2); }
  // Whether it has much less time than others have: it waits for no room that these may use.
  bool is_urgent(const FetchState& fetch) const {
    return time_left(fetch, now_ns_) < time_left(*active_.back(), now_ns_) / 2;
  }
  void begin_pages();
  Attempt& take_attempt(FetchState& fetch, uint32_t page);
  void begin(FetchState& fetch, uint32_t page);
  void look_up(Attempt& attempt);
  void queue_step(Attempt& attempt);
  size_t post_queued(LanePeer& peer);
  void refuse(const Operation& operation);
  size_t poll_completions(LanePeer& peer);
  size_t end_operations(LanePeer& peer);
  void complete(LanePeer& peer, const Completion& completion);
  void operation_ended(const OperationTag& tag);
  void attempt_ended(Attempt& attempt);
  // What completed too late, or under a view that has ended, is as if it had not come (rules 3 and
  // 12).
  bool usable(const Attempt& attempt) const {
    return !attempt.broken && attempt.epoch == fleet_number_ &&
           now_ns_ < usable_until_ns(attempt) && may_use(*attempt.peer);
  }
  uint64_t usable_until_ns(const Attempt& attempt) const {
    if (!on(Guard::kLeasePerRead)) return kNever;
    return attempt.posted_ns + attempt.peer->path.view().reuse_ns;
  }
  // Whether a read may begin, and whether what one brings may be used, under the epoch's view.
  bool may_read() const { return !on(Guard::kViewCheckedAfterBegin) || view_->valid(now_ns_); }
  bool may_use(const LanePeer& peer) const {
    return !on(Guard::kViewCheckedAtCompletion) ||
           (peer.path.view().valid(now_ns_) && view_->valid(now_ns_));
  }
  void read_landed(Attempt& attempt);
  void settle_landed();
  void settle_twin(Attempt& attempt);
  void settle(Attempt& attempt, Reason reason);
  void settle_page(FetchState& fetch, uint32_t page, Reason reason, Version version,
                   const Attempt* first);
  void count_verdict(const FetchState& fetch, const PageVerdict& verdict, uint32_t page);
  void free_attempt(Attempt& attempt) {
    leave(attempt);
    if (attempt.hedge) places_.give_back(uint64_t{1} << attempt.place);
    bytes_under_way_ -= attempt.bytes;
    static_cast<PageInFlight&>(attempt) = {};
    free_attempts_[free_count_++] = attempt.index;
  }

  // lane_recovery.cc: which replica, and what when it came to nothing.
  LanePeer& peer_at(const Attempt& attempt, unsigned rank) const {
    return *by_member_[single_ ? 0 : attempt.replicas[rank]];
  }
  PageHistory& history_of(Attempt& attempt);
  bool has_room(LanePeer& peer, const FetchState& fetch) const;
  ReplicaStates states_of(const Attempt& attempt) const;
  Version newest_possible(const Attempt& attempt) const;
  void begin_anew(Attempt& attempt);
  void outlive_epoch(Attempt& attempt);
  void choose(Attempt& attempt);
  void ask(Attempt& attempt, uint8_t rank);
  void leave(Attempt& attempt) {
    if (attempt.peer == nullptr) return;
    --attempt.peer->attempts;
    attempt.peer->bytes -= attempt.bytes;
    if (attempt.held) {
      --attempt.peer->held;
      attempt.peer->held_bytes -= attempt.bytes;
    }
    history_of(attempt).under_way &= static_cast<Replicas>(~replica(attempt.rank));
    attempt.peer = nullptr;
  }
  void wait_again(Attempt& attempt);
  void stop_waiting(Attempt& attempt);
  void begin_at(LanePeer& peer, Attempt& attempt) {
    attempt.peer = &peer;
    ++peer.attempts;
    peer.bytes += attempt.bytes;
  }
  void begin_again();
  void came_to_nothing(Attempt& attempt);
  void replica_said(Attempt& attempt, Reason reason);
  bool comes_too_late(const Attempt& attempt, uint8_t rank);
  void hedge(Attempt& first);
  void end_hedge(Attempt& hedge);
  void orphan(Attempt& hedge);
  void drop_hedge(Attempt& first);
  void retire(Attempt& loser);
  void hold(Attempt& attempt);
  bool lands(const Attempt& attempt) const;

  // lane_deadlines.cc: whatever has to end, ends.
  void sweep();
  bool any_reachable() const;
  void expire(FetchState& fetch);
  void end_path(LanePeer& peer);
  void give_up(LanePeer& peer);
  template <typename Which>
  void cancel_queued(LanePeer& peer, const Which& which);
  void cancel_queued(LanePeer& peer);
  void cancel_queued(Attempt& attempt);
  void watch();
  bool crowded(const LanePeer& peer) const;
  void collect(LanePeer& peer);
  uint64_t give_up_ns(const Attempt& attempt) const;
  size_t in_flight() const;
  uint64_t next_event_ns() const;
  void wait(uint64_t until_ns);
  template <typename Ready>
  void drive(uint64_t until_ns, const Ready& ready);

  std::shared_ptr<FleetLink> fleet_;
  const Clock& clock_;
  const bool alone_;  // the node serves alone
  const bool verify_;
  const bool lands_with_crc_;
  Mapping memory_;
  Region region_;  // after memory_: its registration ends first
  HedgePlaces places_;
  std::array<Attempt, kWindow> attempts_;
  std::array<uint32_t, kWindow> free_attempts_;  // the first of them
  uint32_t free_count_ = 0;
  std::vector<uint32_t> landed_;  // attempts whose page is whole and waits for the clock
  std::vector<std::unique_ptr<FetchState>> fetches_;
  FetchState orphaned_;  // owns attempts that a fetch has left behind, and which write to the lane
                         // alone
  std::vector<FetchState*> active_;  // those with pages pending or held, by deadline
  uint64_t bytes_under_way_ = 0;     // of all attempts
  uint32_t waiting_ = 0;             // attempts with that flag
  uint64_t page_bytes_ = 0;          // that the next two were made for
  size_t window_ = 1;  // attempts at one time, so that their bytes can land well within L
  size_t poll_batch_ = 4;
  uint64_t now_ns_ = 0;         // as of the last look at the clock
  uint64_t turned_ns_ = 0;      // the last turn
  bool has_waited_ = false;     // since then
  bool was_away_ = false;       // nobody drove the lane for long before this turn
  uint64_t watch_ns_ = kNever;  // when an attempt has to be looked at for what it has not done
  uint64_t hedge_credit_ = 0;   // so that hedges stay few
  std::array<Completion, kPollBatch> polled_;
  LaneCounters counters_;
  uint64_t fleet_number_ = 0;
  std::shared_ptr<ClusterView> view_;
  bool single_ = true;  // the epoch has one member
  std::vector<LanePeer*> by_member_;
  bool any_former_ = false;  // some of the peers are not of the epoch
  // Last: their operations end first, while everything that they may write to still stands.
  std::vector<std::unique_ptr<LanePeer>> peers_;
};

}  // namespace farpage
