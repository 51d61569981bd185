#include <algorithm>

#include "pagetable/guards.h"
#include "tier/lane_engine.h"

namespace farpage {
namespace {

// A hedge costs this many pages that asked for none: one in forty, 2.5%.
constexpr uint64_t kHedgeCost = 40;
constexpr uint64_t kMostCredit = 8 * kHedgeCost;
// So often a page is read though its recompute would be faster, to see whether that still holds.
constexpr uint32_t kSlowerInARow = 63;

}  // namespace

PageHistory& LaneEngine::history_of(Attempt& attempt) {
  return attempt.hedge && attempt.twin != kNoTwin ? attempts_[attempt.twin].history
                                                  : attempt.history;
}

// Whether one more page of this fetch may be under way at one of several nodes.
bool LaneEngine::has_room(LanePeer& peer, const FetchState& fetch) const {
  if (peer.attempts >= most_at_one()) return false;
  if (peer.bytes < peer.window.bytes() || is_urgent(fetch)) return true;
  peer.window.was_full();
  return false;
}

ReplicaStates LaneEngine::states_of(const Attempt& attempt) const {
  ReplicaStates states;
  if (!may_read()) return states;
  const size_t count = single_ ? 1 : attempt.replicas.size();
  for (unsigned rank = 0; rank < count; ++rank) {
    LanePeer& peer = peer_at(attempt, rank);
    if (!peer.reachable(now_ns_)) continue;
    states.reachable |= replica(rank);
    if (peer.path.is_open() && (single_ || has_room(peer, *attempt.fetch))) {
      states.open |= replica(rank);
    }
    if (peer.link->breaker().allows(now_ns_)) states.trusted |= replica(rank);
  }
  return states;
}

// The newest version that anybody can have given out for a page, as far as is known. With a
// register those of the view's epoch, as no other one takes puts while it is valid. With a list
// those of its primary's run, while that is the one that takes puts; and when the primary cannot be
// reached, and may have begun anew, those that any node has told of. One that has just taken over a
// newer page has not told yet: that page is corrupt until the answer to a report tells, which is
// once, or for a second where that key or many others were reported just before: none is sent then.
Version LaneEngine::newest_possible(const Attempt& attempt) const {
  uint64_t epoch = view_->epoch.number;
  if (!fleet_->has_register()) {
    const View* primary = peer_at(attempt, 0).path.newest_view();
    const bool is_told = primary != nullptr && primary->valid(now_ns_);
    epoch = is_told ? primary->epoch : view_->newest_epoch();
  }
  return make_version(epoch, kMaxVersionCounter);
}

// In an epoch that it is not of.
void LaneEngine::begin_anew(Attempt& attempt) {
  attempt.epoch = fleet_number_;
  drop_hedge(attempt);  // it asks a replica of the epoch before, which the history forgets
  const uint8_t attempts = attempt.history.attempts;
  attempt.history = {};
  attempt.history.attempts = attempts;
  if (single_) return;
  attempt.replicas = view_->placement.replicas(attempt.fetch->requests[attempt.page].key);
}

// What it brings is of no use in the new epoch, and says nothing about its peer there. But its
// page's destination is its own until it has ended: another replica may be asked beside it, or when
// it is given up.
void LaneEngine::outlive_epoch(Attempt& attempt) {
  begin_anew(attempt);
  attempt.broken = true;
  attempt.rank = kNoRank;
  attempt.history.under_way = replica(kNoRank);
  const size_t count = single_ ? 1 : attempt.replicas.size();
  for (unsigned rank = 0; rank < count; ++rank) {
    if (&peer_at(attempt, rank) == attempt.peer) attempt.history.asked = replica(rank);
  }
}

// Begins the page's next attempt, or gives its verdict, or waits.
void LaneEngine::choose(Attempt& attempt) {
  PageHistory& history = attempt.history;
  if (attempt.epoch != fleet_number_) begin_anew(attempt);
  Recovery next = {Recovery::Action::kNextReplica, 0};
  if (!single_ || history.attempts > 0 || !by_member_[0]->may_begin()) {
    next = recover(history, states_of(attempt), false);
  }
  switch (next.action) {
    case Recovery::Action::kNextReplica:
    case Recovery::Action::kLookAgain:
      if (history.attempts > 0 && next.action == Recovery::Action::kNextReplica) {
        counters_.next_replicas.add();
      }
      if (attempt.fetch->options.recompute_ns > 0 && comes_too_late(attempt, next.rank)) {
        settle(attempt, Reason::kSlower);
        return free_attempt(attempt);
      }
      return ask(attempt, next.rank);
    case Recovery::Action::kRecompute:
      settle(attempt, next.reason);
      return free_attempt(attempt);
    case Recovery::Action::kHedge:
    case Recovery::Action::kWait:
      return wait_again(attempt);
  }
}

void LaneEngine::ask(Attempt& attempt, uint8_t rank) {
  PageHistory& history = history_of(attempt);
  if (!attempt.hedge) {
    if (history.attempts > 0) {
      attempt.looks = static_cast<uint8_t>(attempt.looks + attempt.lookup.reads());
    }
    if (history.last != rank) attempt.failures = 0;
    history.last = rank;
  }
  history.asked |= replica(rank);
  history.under_way |= replica(rank);
  if (history.attempts < UINT8_MAX) ++history.attempts;
  attempt.rank = rank;
  begin_at(peer_at(attempt, rank), attempt);
  attempt.peer->link->breaker().asked(now_ns_);
  if (attempt.fetch->options.hedge && hedge_credit_ < kMostCredit) ++hedge_credit_;
  look_up(attempt);
}

void LaneEngine::wait_again(Attempt& attempt) {
  if (attempt.hedge) return end_hedge(attempt);
  leave(attempt);
  attempt.waiting = true;
  ++waiting_;
}

void LaneEngine::stop_waiting(Attempt& attempt) {
  if (!attempt.waiting) return;
  attempt.waiting = false;
  --waiting_;
}

// Attempts that came to nothing, and those that found no path yet, by deadline.
void LaneEngine::begin_again() {
  std::array<uint32_t, kWindow> waiting;
  uint32_t count = 0;
  for (const Attempt& attempt : attempts_) {
    if (attempt.waiting) waiting[count++] = attempt.index;
  }
  const auto deadline_of = [this](uint32_t index) { return attempts_[index].fetch->deadline_ns; };
  const auto those = std::span(waiting).first(count);
  std::ranges::sort(those, [&](uint32_t a, uint32_t b) {
    return std::pair(deadline_of(a), a) < std::pair(deadline_of(b), b);
  });
  for (const uint32_t index : those) {
    Attempt& attempt = attempts_[index];
    if (!attempt.waiting || now_ns_ >= attempt.fetch->deadline_ns) continue;
    stop_waiting(attempt);
    choose(attempt);
  }
}

// Its operations have ended, and what they brought is of no use.
void LaneEngine::came_to_nothing(Attempt& attempt) {
  PageHistory& history = history_of(attempt);
  history.failed |= replica(attempt.rank);
  if (attempt.failures >= kMostFailures) history.gone |= replica(attempt.rank);
  wait_again(attempt);
}

// The replica's last word about the page, which it does not have as it should.
void LaneEngine::replica_said(Attempt& attempt, Reason reason) {
  const PageKey& key = attempt.fetch->requests[attempt.page].key;
  PageHistory& history = history_of(attempt);
  NodeLink& link = *attempt.peer->link;
  const Replicas bit = replica(attempt.rank);
  if (reason == Reason::kMiss) {
    history.missed |= bit;
    link.locations().erase(key);
  } else {
    (reason == Reason::kStale ? history.stale : history.corrupt) |= bit;
    if (!fleet_->alone()) link.report(key);
  }
  if (!single_ || attempt.hedge) return wait_again(attempt);
  drop_hedge(attempt);
  settle(attempt, reason);
  free_attempt(attempt);
}

bool LaneEngine::comes_too_late(const Attempt& attempt, uint8_t rank) {
  LanePeer& peer = peer_at(attempt, rank);
  if (attempt.history.attempts > 0 || !peer.latency.known()) return false;
  if (!slower_than_recompute(peer.latency.median_ns(), peer.attempts, window_,
                             attempt.fetch->options.recompute_ns)) {
    return false;
  }
  return ++peer.slower % (kSlowerInARow + 1) != 0;
}

// A second attempt for a page whose first takes longer than most, if there is somebody to ask, a
// place to land in, and credit left.
void LaneEngine::hedge(Attempt& first) {
  const uint64_t bytes = first.fetch->requests[first.page].destination.bytes;
  if (places_.empty() || bytes > places_.page_bytes() || hedge_credit_ < kHedgeCost) return;
  if (free_count_ == 0) return;
  const Recovery next = recover(first.history, states_of(first), true);
  if (next.action != Recovery::Action::kHedge) return;
  hedge_credit_ -= kHedgeCost;
  counters_.hedges.add();
  Attempt& second = take_attempt(*first.fetch, first.page);
  second.hedge = true;
  second.place = places_.take();
  second.landing = places_.slice(second.place, bytes);
  second.epoch = first.epoch;
  second.replicas = first.replicas;
  second.twin = static_cast<uint16_t>(first.index);
  first.twin = static_cast<uint16_t>(second.index);
  first.history.hedged = true;
  ask(second, next.rank);
}

// A hedge that brought nothing: the page is its first attempt's again.
void LaneEngine::end_hedge(Attempt& hedge) {
  Attempt& first = attempts_[hedge.twin];
  first.looks = static_cast<uint8_t>(first.looks + hedge.lookup.reads());
  leave(hedge);
  first.twin = kNoTwin;
  free_attempt(hedge);
}

void LaneEngine::drop_hedge(Attempt& first) {
  if (first.twin != kNoTwin) orphan(attempts_[first.twin]);
}

// A hedge whose page has its verdict, or begins again: it writes to the lane alone, until it has
// ended.
void LaneEngine::orphan(Attempt& hedge) {
  attempts_[hedge.twin].twin = kNoTwin;
  hedge.twin = kNoTwin;
  if (hedge.outstanding == 0) return free_attempt(hedge);
  hold(hedge);
  hedge.fetch = &orphaned_;
  cancel_queued(hedge);
}

bool LaneEngine::lands(const Attempt& attempt) const {
  return attempt.outstanding > 0 && attempt.lookup.step() == PageLookup::Step::kReadPage &&
         attempt.fetch->requests[attempt.page].destination.bytes > 0;
}

void LaneEngine::hold(Attempt& attempt) {
  attempt.held = true;
  ++attempt.peer->held;
  attempt.peer->held_bytes += attempt.bytes;
  watch_ns_ = now_ns_;
}

// The first attempt of a page that has its verdict now, though its operations have not ended: what
// they may write to is held (I4).
void LaneEngine::retire(Attempt& loser) {
  hold(loser);
  if (!lands(loser)) {
    loser.fetch = &orphaned_;
    return;
  }
  if (on(Guard::kHoldUntilEnded)) loser.fetch->verdicts[loser.page].place = Place::kHeld;
  ++loser.fetch->held;
}

}  // namespace farpage
