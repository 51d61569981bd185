#include <algorithm>
#include <utility>

#include "pagetable/guards.h"
#include "tier/fetch/lane_reads.h"

namespace farpage {
namespace {

// A hedge costs this many pages that asked for none: one in forty, 2.5%.
constexpr uint64_t kHedgeCost = 40;
constexpr uint64_t kMostCredit = 8 * kHedgeCost;
// So often a page is read though its recompute would be faster, to see whether that still holds.
constexpr uint32_t kSlowerInARow = 63;
// In `looks` of a verdict that is not given yet.
constexpr uint8_t kPutOff = UINT8_MAX;
// Ten times what a look costs at a page that was put off, and at one that was not.
constexpr uint64_t kPutOffPageNs = kMicrosecond;
constexpr uint64_t kPassedPageNs = 100;

}  // namespace

PageHistory& LaneEngine::history_of(PageInFlight& page) {
  PageDetails& details = details_of(page);
  return page.is.hedge && details.twin != kNoTwin ? details_[details.twin].history
                                                  : details.history;
}

// Whether one more page of this fetch may be under way at one of several nodes.
bool LaneEngine::has_room(LanePeer& peer, const FetchState& fetch) const {
  if (peer.attempts >= most_at_one()) return false;
  if (peer.bytes < peer.window.bytes() || is_urgent(fetch)) return true;
  peer.window.was_full();
  return false;
}

ReplicaStates LaneEngine::states_of(const PageInFlight& page) const {
  ReplicaStates states;
  const bool has_view = states.has_view = may_read();
  if (!has_view && !fleet_->wakes()) return states;
  const size_t count = single_ ? 1 : details_[page.index].replicas.size();
  const bool is_new = details_[page.index].history.asked == 0;
  for (unsigned rank = 0; rank < count; ++rank) {
    LanePeer& peer = peer_at(page, rank);
    // The epoch that a client which wakes up will hear of may have other nodes for the page.
    if (!has_view) peer.link->start();
    if (has_view && !peer.is_in_reach(now_ns_)) {
      if (peer.is_returning(now_ns_)) states.returning |= replica(rank);
      continue;
    }
    states.reachable |= replica(rank);
    const bool is_free =
        single_ ? peer.attempts < kWindow : !(peer.silent && is_new) && has_room(peer, *page.fetch);
    if (has_view && peer.path.is_open() && is_free) {
      states.open |= replica(rank);
    }
    if (peer.link->breaker().allows(now_ns_)) states.trusted |= replica(rank);
  }
  return states;
}

// The newest version that any node can have given out for a page, as far as is known. With a
// register those of the view's epoch, as no other one takes puts while it is valid. With a list
// those of its primary's run, while that is the one that takes puts; and when the primary cannot be
// reached, and may have begun anew, those that any node has told of. One that has just taken over a
// newer page has not told yet: that page is corrupt until the answer to a report tells, which is
// once, or for a second where that key or many others were reported just before: none is sent then.
Version LaneEngine::newest_possible(const PageInFlight& page) const {
  uint64_t epoch = view_->epoch.number;
  if (!fleet_->has_register()) {
    const View* primary = peer_at(page, 0).path.newest_view();
    const bool is_told = primary != nullptr && primary->valid(now_ns_);
    epoch = is_told ? primary->epoch : view_->newest_epoch();
  }
  return make_version(epoch, kMaxVersionCounter);
}

// In an epoch that it is not of.
void LaneEngine::begin_anew(PageInFlight& page) {
  page.is.former = false;
  drop_hedge(page);  // it asks a replica of the epoch before, which the history forgets
  PageDetails& details = details_of(page);
  const uint8_t attempts = details.history.attempts;
  details.history = {};
  details.history.attempts = attempts;
  if (!single_) details.replicas = view_->placement.replicas(page.request->key);
}

// Its page is of no use in the new epoch, and says nothing about its peer there. But its page's
// destination is its own until it has ended: another replica may be asked beside it, or when it is
// given up.
void LaneEngine::carry_over_epoch(PageInFlight& page) {
  begin_anew(page);
  page.is.broken = true;
  page.rank = kNoRank;
  PageDetails& details = details_of(page);
  details.history.under_way = replica(kNoRank);
  const size_t count = single_ ? 1 : details.replicas.size();
  for (unsigned rank = 0; rank < count; ++rank) {
    if (&peer_at(page, rank) == page.peer) details.history.asked = replica(rank);
  }
}

// Begins the page's next attempt, or gives its verdict, or waits.
void LaneEngine::choose(PageInFlight& page) {
  if (page.is.former) begin_anew(page);
  PageHistory& history = details_of(page).history;
  Recovery next = {Recovery::Action::kNextReplica, 0};
  if (!single_ || history.attempts > 0 || !may_begin(*by_member_[0]) ||
      by_member_[0]->attempts >= kWindow) {
    next = recover(history, states_of(page), false);
  }
  switch (next.action) {
    case Recovery::Action::kNextReplica:
    case Recovery::Action::kLookAgain:
      if (history.attempts > 0 && next.action == Recovery::Action::kNextReplica) {
        counters_.next_replicas.add();
      }
      if (page.fetch->options.recompute_ns > 0 && comes_too_late(page, next.rank)) {
        settle(page, Reason::kSlower);
        return free_page(page);
      }
      return ask(page, next.rank);
    case Recovery::Action::kRecompute:
      settle(page, next.reason);
      return free_page(page);
    case Recovery::Action::kHedge:
    case Recovery::Action::kWait:
      if (!waits_for_nodes(page.request->key, history.said())) return requeue(page);
      if (history.asked == 0) return put_off(page);
      requeue(page);
      return park(page);
  }
}

void LaneEngine::ask(PageInFlight& page, uint8_t rank) {
  PageHistory& history = history_of(page);
  if (!page.is.hedge) {
    if (history.attempts > 0) {
      PageDetails& details = details_of(page);
      details.looks = static_cast<uint8_t>(details.looks + looks_at(page));
    }
    if (history.last != rank) page.failures = 0;
    history.last = rank;
  }
  history.asked |= replica(rank);
  history.under_way |= replica(rank);
  if (history.attempts < UINT8_MAX) ++history.attempts;
  page.rank = rank;
  begin_at(peer_at(page, rank), page);
  page.peer->link->breaker().asked(now_ns_);
  if (page.fetch->options.hedge && hedge_credit_ < kMostCredit) ++hedge_credit_;
  page.is.looked_up = false;
  step_later(page);
}

void LaneEngine::requeue(PageInFlight& page) {
  if (page.is.hedge) return end_hedge(page);
  leave(page);
  page.is.waiting = true;
  ++waiting_;
}

// Whether no node that may have the page is both open and heard of, and one of them may be. `said`:
// those that have said that they have it not; then one that returns may.
bool LaneEngine::waits_for_nodes(const PageKey& key, Replicas said) const {
  if (single_ || !may_read()) return false;
  bool any = false;
  const ReplicaSet replicas = view_->placement.replicas(key);
  for (unsigned rank = 0; rank < replicas.size(); ++rank) {
    if ((said & replica(rank)) != 0) continue;
    LanePeer& peer = *by_member_[replicas[rank]];
    if (!peer.is_in_reach(now_ns_) && (said == 0 || !peer.is_returning(now_ns_))) continue;
    if (peer.path.is_open() && !peer.silent) return false;
    any = true;
  }
  return any;
}

// A page that waits, and has asked before: it keeps its place, but no other's.
void LaneEngine::park(PageInFlight& page) {
  page.is.parked = true;
  ++parked_.pages;
  parked_.bytes += page.bytes;
}

// A page that has asked no node yet needs no place: its verdict shows that it was put off.
bool LaneEngine::is_put_off(const FetchState& fetch, size_t number) {
  const PageVerdict& verdict = fetch.verdicts[number];
  return verdict.verdict == Verdict::kPending && verdict.looks == kPutOff;
}

void LaneEngine::put_off(PageInFlight& page) {
  FetchState& fetch = *page.fetch;
  fetch.verdicts[page.number()].looks = kPutOff;
  ++fetch.put_off;
  ++put_off_;
  free_page(page);
}

void LaneEngine::take_up(FetchState& fetch, size_t number) {
  fetch.verdicts[number].looks = 0;
  --fetch.put_off;
  --put_off_;
}

// Passes over all that were put off, by deadline, each from where there was no more room. A pass
// takes a tenth of the time at most.
void LaneEngine::begin_put_off() {
  if (!takes_up_) {
    // Alone, a node is asked for all of them.
    if (!looks_at_put_off_ || (!single_ && now_ns_ < put_off_ns_)) return;
    looks_at_put_off_ = false;
    takes_up_ = true;
    for (FetchState* fetch : active_) fetch->put_off_at = 0;
  }
  for (FetchState* fetch : active_) {
    if (fetch->put_off == 0 || now_ns_ >= fetch->deadline_ns) continue;
    for (size_t& at = fetch->put_off_at; at < fetch->next; ++at) {
      if (!is_put_off(*fetch, at) || waits_for_nodes(fetch->requests[at].key)) continue;
      if (places_taken() >= most_of(*fetch)) return;
      take_up(*fetch, at);
      PageInFlight& page = take_page(*fetch, static_cast<uint32_t>(at));
      begin_anew(page);
      choose(page);
    }
  }
  takes_up_ = false;
  put_off_ns_ = now_ns_ + put_off_ * kPutOffPageNs;
  for (const FetchState* fetch : active_) {
    if (fetch->put_off > 0) put_off_ns_ += fetch->next * kPassedPageNs;
  }
}

void LaneEngine::stop_waiting(PageInFlight& page) {
  if (!page.is.waiting) return;
  if (page.is.parked) {
    --parked_.pages;
    parked_.bytes -= page.bytes;
  }
  page.is.waiting = page.is.parked = false;
  --waiting_;
}

// Attempts that came to nothing, and those that found no path yet, by deadline.
void LaneEngine::begin_again() {
  std::array<uint32_t, kPlaces> waiting;
  uint32_t count = 0;
  for (const PageInFlight& page : pages_) {
    if (page.is.waiting) waiting[count++] = page.index;
  }
  const auto deadline_of = [this](uint32_t index) { return pages_[index].fetch->deadline_ns; };
  const auto those = std::span(waiting).first(count);
  std::ranges::sort(those, [&](uint32_t a, uint32_t b) {
    return std::pair(deadline_of(a), a) < std::pair(deadline_of(b), b);
  });
  for (const uint32_t index : those) {
    PageInFlight& page = pages_[index];
    if (!page.is.waiting || now_ns_ >= page.fetch->deadline_ns) continue;
    stop_waiting(page);
    choose(page);
  }
}

// Its operations have ended, and what they brought is of no use.
void LaneEngine::attempt_failed(PageInFlight& page) {
  PageHistory& history = history_of(page);
  history.failed |= replica(page.rank);
  if (page.failures >= kMostFailures) history.gone |= replica(page.rank);
  requeue(page);
}

// The replica's last word about the page, which it does not have as it should.
void LaneEngine::on_replica_verdict(PageInFlight& page, Reason reason) {
  const PageKey& key = page.request->key;
  PageHistory& history = history_of(page);
  NodeSession& link = *page.peer->link;
  const Replicas bit = replica(page.rank);
  if (reason == Reason::kMiss) {
    history.missed |= bit;
    link.locations().erase(key);
  } else {
    (reason == Reason::kStale ? history.stale : history.corrupt) |= bit;
    if (!fleet_->alone()) link.report(key);
  }
  if (!single_ || page.is.hedge) return requeue(page);
  drop_hedge(page);
  settle(page, reason);
  free_page(page);
}

bool LaneEngine::comes_too_late(PageInFlight& page, uint8_t rank) {
  LanePeer& peer = peer_at(page, rank);
  if (details_of(page).history.attempts > 0 || !peer.latency.known()) return false;
  if (!slower_than_recompute(peer.latency.median_ns(), peer.attempts, window_,
                             page.fetch->options.recompute_ns)) {
    return false;
  }
  return ++peer.slower % (kSlowerInARow + 1) != 0;
}

// A second attempt for a page whose first takes longer than most, if there is a replica to ask, a
// place to land in, and credit left.
void LaneEngine::hedge(PageInFlight& first) {
  const uint64_t bytes = first.bytes;
  // The place is host memory, where a reader of another kind cannot look.
  if (!first.request->destination.place.is_host()) return;
  if (first.is.straight) return;  // its end is no node's, and it does not land at its destination
  if (places_.free_pages() == 0 || bytes > places_.page_bytes() || hedge_credit_ < kHedgeCost)
    return;
  if (free_count_ == 0) return;
  PageDetails& known = details_of(first);
  const Recovery next = recover(known.history, states_of(first), true);
  if (next.action != Recovery::Action::kHedge) return;
  hedge_credit_ -= kHedgeCost;
  counters_.hedges.add();
  PageInFlight& second = take_page(*first.fetch, first.number());
  PageDetails& details = details_of(second);
  second.is.hedge = true;
  details.place = static_cast<uint8_t>(*places_.take_index());
  details.landing = places_.slice(details.place, bytes);
  details.replicas = known.replicas;
  details.twin = first.index;
  known.twin = second.index;
  known.history.hedged = true;
  ask(second, next.rank);
}

// A hedge that brought nothing: the page is its first attempt's again.
void LaneEngine::end_hedge(PageInFlight& hedge) {
  PageDetails& first = details_[twin_of(hedge)];
  first.looks = static_cast<uint8_t>(first.looks + looks_at(hedge));
  leave(hedge);
  first.twin = kNoTwin;
  free_page(hedge);
}

void LaneEngine::drop_hedge(PageInFlight& first) {
  if (twin_of(first) != kNoTwin) orphan(pages_[twin_of(first)]);
}

// A hedge whose page has its verdict, or begins again: it writes to the lane alone, until it has
// ended.
void LaneEngine::orphan(PageInFlight& hedge) {
  PageDetails& details = details_of(hedge);
  details_[details.twin].twin = kNoTwin;
  details.twin = kNoTwin;
  if (hedge.outstanding == 0) return free_page(hedge);
  hold(hedge);
  hedge.fetch = &orphaned_;
}

bool LaneEngine::lands(const PageInFlight& page) const {
  return page.outstanding > 0 && page.is.reads_page && page.bytes > 0;
}

void LaneEngine::hold(PageInFlight& page) {
  page.is.held = true;
  ++page.peer->held;
  page.peer->held_bytes += page.bytes;
  watch_ns_ = now_ns_;
  look_after(now_ns_);
}

// The first attempt of a page that has its verdict now, though its operations have not ended: what
// they may write to is held (I4).
void LaneEngine::retire(PageInFlight& loser) {
  hold(loser);
  if (!lands(loser)) {
    loser.fetch = &orphaned_;
    return;
  }
  PageVerdict& verdict = loser.fetch->verdicts[loser.number()];
  if (enforced(Guard::kHoldUntilEnded)) verdict.place = Place::kHeld;
  if (loser.is.straight) verdict.landed = straight_landing(loser);
  ++loser.fetch->held;
}

}  // namespace farpage
