#include <algorithm>
#include <atomic>

#include "tier/lane_engine.h"

namespace farpage {
namespace {

// Several channels cannot be waited for at one time: each is looked at again after so long.
constexpr uint64_t kLookNs = 20 * kMicrosecond;
constexpr uint64_t kIdleLookNs = kMillisecond;
// A read that takes this many times what most of the peer's take is given up for another replica,
// if half of its time has passed.
constexpr uint64_t kHopeless = 8;

}  // namespace

void LaneEngine::sweep() {
  for (const auto& peer : peers_) {
    if (!peer->path.is_open() || (peer->is_of_epoch() && may_use(*peer))) continue;
    end_path(*peer);
    poll_completions(*peer);
  }
  if (waiting_ > 0) begin_again();
  for (FetchState* fetch : active_) {
    if (fetch->pending > 0 && now_ns_ >= fetch->deadline_ns) expire(*fetch);
  }
  if (now_ns_ >= watch_ns_) watch();
  std::erase_if(active_,
                [](const FetchState* fetch) { return fetch->pending == 0 && fetch->held == 0; });
}

bool LaneEngine::any_reachable() const {
  return may_read() &&
         std::ranges::any_of(peers_, [this](const auto& peer) { return peer->reachable(now_ns_); });
}

// The deadline has come: every page gets its verdict now. A destination that an operation may still
// write to is held until the operation has ended, or watch() ends its path: the deadline is the
// caller's, and the channel is everybody's.
void LaneEngine::expire(FetchState& fetch) {
  const auto is_of = [&](const Attempt& attempt) { return attempt.fetch == &fetch; };
  for (const auto& peer : peers_) {
    cancel_queued(*peer, is_of);
    const auto under_way = [&](const Attempt& attempt) {
      return is_of(attempt) && attempt.peer == peer.get() && attempt.outstanding > 0;
    };
    // A backend that copies ends what is late by itself, when it is polled.
    if (std::ranges::any_of(attempts_, under_way)) collect(*peer);
  }
  for (const auto& peer : peers_) cancel_queued(*peer, is_of);  // what the polls have queued anew
  for (Attempt& attempt : attempts_) {
    if (is_of(attempt) && attempt.hedge && !attempt.held) orphan(attempt);
  }
  const Reason reason = any_reachable() ? Reason::kStalled : Reason::kUnreachable;
  for (Attempt& attempt : attempts_) {
    if (!is_of(attempt) || attempt.held) continue;
    stop_waiting(attempt);
    const uint32_t page = attempt.page;
    const bool ended = attempt.outstanding == 0;
    if (!ended) retire(attempt);
    settle_page(fetch, page, ended ? reason : Reason::kStalled, 0, &attempt);
    if (ended) free_attempt(attempt);
  }
  while (fetch.next < fetch.requests.size()) {
    settle_page(fetch, static_cast<uint32_t>(fetch.next++), reason, 0, nullptr);
  }
}

// Takes all that has ended at the peer.
void LaneEngine::collect(LanePeer& peer) {
  for (size_t before = SIZE_MAX; peer.path.in_flight() < before;) {
    before = peer.path.in_flight();
    poll_completions(peer);
  }
}

void LaneEngine::end_path(LanePeer& peer) {
  cancel_queued(peer);
  if (!peer.path.is_open()) return;
  counters_.channels_ended.add();
  peer.path.end();
}

// The peer has not done what was asked of it in time.
void LaneEngine::give_up(LanePeer& peer) {
  // One failure, however many attempts wait for it.
  if (peer.path.is_open()) peer.link->breaker().failed(now_ns_);
  end_path(peer);
}

// Takes back what has been queued and not posted, of such attempts.
template <typename Which>
void LaneEngine::cancel_queued(LanePeer& peer, const Which& which) {
  if (peer.queue.empty()) return;
  const auto stays = [&](const Operation& operation) {
    return !which(attempts_[OperationTag::of(operation.tag).attempt]);
  };
  const auto first = std::stable_partition(peer.queue.begin(), peer.queue.end(), stays);
  const auto kept = first - peer.queue.begin();
  for (auto at = static_cast<size_t>(kept); at < peer.queue.size(); ++at) {
    const OperationTag tag = OperationTag::of(peer.queue[at].tag);
    attempts_[tag.attempt].broken = true;
    operation_ended(tag);
  }
  peer.queue.erase(peer.queue.begin() + kept, peer.queue.end());
}

void LaneEngine::cancel_queued(LanePeer& peer) {
  cancel_queued(peer, [](const Attempt&) { return true; });
}

void LaneEngine::cancel_queued(Attempt& attempt) {
  cancel_queued(*attempt.peer, [&](const Attempt& each) { return &each == &attempt; });
}

// Attempts that have been under way for long. A path ends when one of them has been for longer than
// what it brings could be used, or when nothing has come over it for much longer than most take,
// and pages wait for that.
void LaneEngine::watch() {
  watch_ns_ = kNever;
  for (Attempt& attempt : attempts_) {
    if (attempt.fetch == nullptr || attempt.outstanding == 0) continue;
    LanePeer& peer = *attempt.peer;
    if (!peer.path.is_open()) continue;
    uint64_t next = std::min(usable_until_ns(attempt), give_up_ns(attempt));
    if (now_ns_ >= next) {
      // It may have ended long ago, while nobody drove the lane.
      collect(peer);
      const bool is_overdue = attempt.outstanding > 0 && attempt.peer == &peer &&
                              now_ns_ >= std::min(usable_until_ns(attempt), give_up_ns(attempt));
      if (is_overdue) give_up(peer);
      watch_ns_ = std::min(watch_ns_, now_ns_);
      continue;
    }
    const bool may_hedge = attempt.fetch->options.hedge && !attempt.held && !attempt.hedge &&
                           !attempt.history.hedged && peer.latency.known();
    if (may_hedge) {
      const uint64_t slow = attempt.posted_ns + peer.latency.p98_ns();
      if (now_ns_ >= slow) {
        hedge(attempt);
      } else {
        next = std::min(next, slow);
      }
    }
    watch_ns_ = std::min(watch_ns_, next);
  }
}

// Attempts whose pages have their verdict take more than half of what may be under way at the peer.
bool LaneEngine::crowded(const LanePeer& peer) const {
  return 2 * peer.held > most_at_one() || 2 * peer.held_bytes > peer.window.bytes();
}

// When the path of the attempt's peer is given up, if nothing at all comes over it until then and
// other pages wait for that: another replica may have the attempt's page, of whose time half is
// over, or the attempts that are held take the window. Never, as long as nobody knows how long the
// peer's reads take; but what can bring nothing is given up.
uint64_t LaneEngine::give_up_ns(const Attempt& attempt) const {
  if (single_) return kNever;
  const LanePeer& peer = *attempt.peer;
  const uint64_t hopeless_ns =
      std::max(attempt.posted_ns, peer.heard_ns) + kHopeless * peer.latency.p98_ns();
  if (attempt.held) return peer.latency.known() && crowded(peer) ? hopeless_ns : kNever;
  if (attempt.hedge || attempt.twin != kNoTwin) return kNever;
  if (!peer.latency.known() && !attempt.broken) return kNever;
  const PageHistory& history = attempt.history;
  const ReplicaStates states = states_of(attempt);
  const auto others = static_cast<Replicas>(
      states.open & states.trusted &
      ~(history.asked | history.missed | history.stale | history.corrupt | history.gone));
  if (others == 0) return kNever;
  const uint64_t half = time_left(*attempt.fetch, attempt.posted_ns) / 2;
  return std::max(attempt.posted_ns + half, hopeless_ns);
}

size_t LaneEngine::in_flight() const {
  size_t sum = 0;
  for (const auto& peer : peers_) sum += peer->path.in_flight();
  return sum;
}

uint64_t LaneEngine::next_event_ns() const {
  uint64_t next = in_flight() > 0 ? watch_ns_ : kNever;
  for (const FetchState* fetch : active_) {
    if (fetch->pending > 0) next = std::min(next, fetch->deadline_ns);
  }
  // A lease that has ended is no event: what is still under way then ends by itself.
  const auto ends = [&](const std::atomic<uint64_t>& until_ns) {
    const uint64_t end = until_ns.load(std::memory_order_relaxed);
    if (end > now_ns_) next = std::min(next, end);
  };
  for (const auto& peer : peers_) {
    if (peer->path.is_open()) ends(peer->path.view().valid_until_ns);
  }
  ends(view_->valid_until_ns);
  return next;
}

void LaneEngine::wait(uint64_t until_ns) {
  has_waited_ = true;
  if (peers_.size() == 1) return peers_[0]->path.wait(until_ns);
  const uint64_t now = clock_.now_ns();
  for (const auto& peer : peers_) {
    if (peer->path.in_flight() == 0) continue;
    return peer->path.wait(std::min(until_ns, now + kLookNs));
  }
  fleet_->runtime().wait_until(std::min(until_ns, now + kIdleLookNs), [this] {
    return fleet_->number() != fleet_number_ || std::ranges::any_of(peers_, [](const auto& peer) {
             return peer->member && peer->path.changed();
           });
  });
}

template <typename Ready>
void LaneEngine::drive(uint64_t until_ns, const Ready& ready) {
  if (progress() || ready()) return;
  // There is something to post.
  if (single_ && by_member_[0]->path.is_open() && in_flight() == 0) return;
  wait(std::min(until_ns, next_event_ns()));
}

void LaneEngine::wait_done(FetchState* fetch) {
  while (fetch->pending > 0) drive(kNever, [fetch] { return fetch->pending == 0; });
}

bool LaneEngine::wait_released(FetchState* fetch, uint64_t deadline_ns) {
  const auto released = [fetch] { return fetch->pending == 0 && fetch->held == 0; };
  while (!released()) {
    if (clock_.now_ns() >= deadline_ns) return false;
    drive(deadline_ns, released);
  }
  return true;
}

void LaneEngine::wait_moved(uint64_t until_ns) {
  drive(until_ns, [] { return false; });
}

}  // namespace farpage
