#include <algorithm>
#include <atomic>

#include "tier/fetch/lane_reads.h"

namespace farpage {
namespace {

// As many as are under way at one time: a backend that copies must get through them well within
// `read_window`.
constexpr uint64_t kWindowBytes = 32 * kMiB;
// A read that takes this many times what most of the peer's take is given up for another replica,
// if half of its time has passed.
constexpr uint64_t kHopeless = 8;
// The house is kept as often as this, though nothing is known to be due.
constexpr uint64_t kHouseNs = 10 * kMillisecond;
// A node that has answered nothing for kHopeless times what most of its reads take is silent,
// within these bounds: a pause, which its reads remember, delays no later look. Where that time is
// unknown, after kSilentNs.
constexpr uint64_t kLeastSilentNs = kMillisecond;
constexpr uint64_t kMostSilentNs = 20 * kMillisecond;
constexpr uint64_t kSilentNs = 5 * kMillisecond;

}  // namespace

void LaneEngine::keep_house() {
  changes_ = runtime_.changes();  // before what it counts is looked at
  if (fleet_number_ != fleet_->published().number()) enter_epoch();
  if (!index_reads_.ended().empty()) take_answers();  // while their peers are there
  for (const auto& peer : peers_) {
    const bool is_idle = peer->link->is_unused() && peer->path.at_rest() && !peer->path.changed();
    if (!peer->member || !(is_idle || peer->path.is_current())) advance_path(*peer);
    if (peer->path.is_open() && !(peer->is_of_epoch() && may_use(*peer))) end_path(*peer);
  }
  std::erase_if(busy_, [](LanePeer* peer) {
    peer->busy = peer->path.in_flight() > 0;
    return !peer->busy;
  });
  if (any_former_) drop_former();
  find_silent();
  looks_at_put_off_ = true;
  for (FetchState* fetch : active_) {
    if (fetch->pending > 0 && now_ns_ >= fetch->deadline_ns) expire(*fetch);
  }
  if (now_ns_ >= watch_ns_) watch();
  if (index_reads_.any()) answer_questions();
  due_ns_ = next_due_ns();
}

// Something has changed that keep_house() has not seen, or could not take without waiting.
bool LaneEngine::is_behind() const {
  return fleet_->published().number() != fleet_number_ ||
         std::ranges::any_of(peers_,
                             [](const auto& peer) { return peer->member && peer->path.changed(); });
}

uint64_t LaneEngine::next_due_ns() const {
  uint64_t next = std::min(now_ns_ + kHouseNs, watch_ns_);
  for (const FetchState* fetch : active_) {
    if (fetch->pending == 0) continue;
    next = std::min(next, fetch->deadline_ns);
    break;
  }
  for (const QuestionState* question : index_reads_.questions()) {
    next = std::min(next, question->until_ns);
  }
  // A time that has passed is handled already, or waits for something else.
  const auto at = [&](uint64_t time_ns) {
    if (time_ns > now_ns_) next = std::min(next, time_ns);
  };
  if (is_behind()) return now_ns_;
  for (const auto& peer : peers_) {
    at(peer->path.is_open() ? peer->path.view().valid_until_ns.load(std::memory_order_relaxed)
                            : peer->path.retry_ns());
  }
  at(view_->valid_until_ns.load(std::memory_order_relaxed));
  if (!single_) {
    for (const LanePeer* peer : busy_) at(silent_ns(*peer));
  }
  return next;
}

Result<void> LaneEngine::open_path() {
  now_ns_ = clock_.now_ns();
  const uint64_t deadline = now_ns_ + fleet_->options().connect_ms * kMillisecond;
  fleet_->reach_one(deadline);
  while (true) {
    if (fleet_number_ != fleet_->published().number()) enter_epoch();
    for (const auto& peer : peers_) advance_path(*peer);
    const auto is_open = [](const auto& peer) { return peer->path.is_open(); };
    if (std::ranges::any_of(peers_, is_open)) return {};
    const bool late = now_ns_ >= deadline;
    const bool hopeless = std::ranges::all_of(
        peers_, [](const auto& peer) { return peer->path.error() && !peer->path.lost_link(); });
    for (const auto& peer : peers_) {
      if (peer->path.error() && (late || hopeless)) return tl::unexpected(*peer->path.error());
    }
    if (late) {
      return fail(Code::kTimeout, "the memory node has opened no lane in client.connect_ms");
    }
    wait(deadline);
    now_ns_ = clock_.now_ns();
  }
}

// Makes the peers that have joined, once for each.
void LaneEngine::enter_epoch() {
  std::shared_ptr<EpochLease> view;
  if (!fleet_->published().try_take(view, fleet_number_)) return look_after(now_ns_);
  if (view == nullptr) return;
  view_ = std::move(view);
  single_ = view_->links.size() == 1;
  by_member_.clear();
  for (const auto& peer : peers_) peer->member = false;
  any_former_ = true;
  for (size_t member = 0; member < view_->links.size(); ++member) {
    const auto& link = view_->links[member];
    auto known = std::ranges::find(peers_, link, &LanePeer::link);
    if (known == peers_.end()) {
      peers_.push_back(std::make_unique<LanePeer>(link));
      known = peers_.end() - 1;
    }
    LanePeer& peer = **known;
    peer.member = true;
    peer.any_run = !fleet_->has_register();
    peer.incarnation = view_->epoch.members[member].incarnation;
    by_member_.push_back(&peer);
  }
  busy_.reserve(peers_.size());
  for (PageInFlight& page : pages_) {
    if (page.fetch == nullptr || page.is.held) continue;
    if (page.outstanding > 0 && !page.is.hedge) {
      carry_over_epoch(page);
    } else {
      page.is.former = true;
    }
  }
  watch_ns_ = now_ns_;
  look_after(now_ns_);
}

void LaneEngine::advance_path(LanePeer& peer) {
  if (peer.path.outdated() || (!peer.member && peer.path.is_open())) peer.path.end();
  if (!peer.path.is_open()) peer.source.reset();
  if (!peer.member || !peer.path.advance(now_ns_)) return;
  watch_ns_ = now_ns_;  // there is one more to ask
  const Geometry& geometry = peer.path.view().geometry;
  peer.header_stride = geometry.header_stride();
  open_source(peer);
  const uint64_t page_bytes = geometry.page_bytes;
  if (page_bytes == page_bytes_) return;
  page_bytes_ = page_bytes;
  window_ = std::clamp<size_t>(kWindowBytes / page_bytes, 2, kWindow);
  poll_batch_ = page_batch_ = std::clamp<size_t>(kPollBytes / page_bytes, 1, kPollBatch);
}

// A node that has left the epoch costs no turn anything once what was read there has ended.
void LaneEngine::drop_former() {
  std::erase_if(peers_, [](const auto& peer) {
    return !peer->member && peer->attempts == 0 && peer->asked == 0 && !peer->busy &&
           peer->path.at_rest();
  });
  any_former_ = !std::ranges::all_of(peers_, &LanePeer::member);
}

void LaneEngine::end_path(LanePeer& peer) {
  if (!peer.path.is_open()) return;
  counters_.channels_ended.add();
  peer.path.end();
  peer.source.reset();
}

// The peer has not done what was asked of it in time.
void LaneEngine::give_up(LanePeer& peer) {
  // One failure, however many attempts wait for it.
  if (peer.path.is_open()) peer.link->breaker().failed(now_ns_);
  end_path(peer);
}

bool LaneEngine::any_reachable() const {
  return may_read() &&
         std::ranges::any_of(peers_, [this](const auto& peer) { return peer->reachable(now_ns_); });
}

// Of those that may have the page.
bool LaneEngine::any_reachable(const PageKey& key) const {
  if (single_) return by_member_[0]->reachable(now_ns_);
  const ReplicaSet replicas = view_->placement.replicas(key);
  for (unsigned rank = 0; rank < replicas.size(); ++rank) {
    if (by_member_[replicas[rank]]->reachable(now_ns_)) return true;
  }
  return false;
}

// Whether the page has had no node to ask yet.
bool LaneEngine::waits_for_links(const PageInFlight& page) const {
  if (page.is.former || details_[page.index].history.asked != 0) return false;
  return !any_reachable(page.request->key);
}

// The deadline has come: every page gets its verdict now. A destination that an operation may still
// write to is held until the operation has ended, or watch() ends its path: the deadline is the
// caller's, and the channel is everybody's.
void LaneEngine::expire(FetchState& fetch) {
  for (const auto& peer : peers_) {
    const auto under_way = [&](const PageInFlight& page) {
      return page.fetch == &fetch && page.peer == peer.get() && page.outstanding > 0;
    };
    // A backend that copies ends what is late by itself, when it is polled.
    if (std::ranges::any_of(pages_, under_way)) drain(*peer);
  }
  for (PageInFlight& page : pages_) {
    if (page.fetch == &fetch && page.is.hedge && !page.is.held) orphan(page);
  }
  const Reason reason = any_reachable() ? Reason::kStalled : Reason::kUnreachable;
  for (PageInFlight& page : pages_) {
    if (page.fetch != &fetch || page.is.held) continue;
    const bool in_vain = page.is.waiting && waits_for_links(page);
    stop_waiting(page);
    const uint32_t number = page.number();
    const bool ended = page.outstanding == 0;
    if (!ended) retire(page);
    const Reason why = in_vain ? Reason::kUnreachable : reason;
    settle_page(fetch, number, ended ? why : Reason::kStalled, &page);
    if (ended) free_page(page);
  }
  for (size_t number = 0; fetch.put_off > 0; ++number) {
    if (!is_put_off(fetch, number)) continue;
    take_up(fetch, number);
    const bool in_vain = !any_reachable(fetch.requests[number].key);
    settle_page(fetch, static_cast<uint32_t>(number), in_vain ? Reason::kUnreachable : reason,
                nullptr);
  }
  while (fetch.next < fetch.requests.size()) {
    --unbegun_;
    settle_page(fetch, static_cast<uint32_t>(fetch.next++), reason, nullptr);
  }
}

// Pages that have been under way for long. A path ends when one of them has been for longer than
// what it brings could be used, or when nothing has come over it for much longer than most take,
// and pages wait for that.
void LaneEngine::watch() {
  watch_ns_ = kNever;
  for (PageInFlight& page : pages_) {
    if (page.fetch == nullptr || !page.is_read()) continue;
    LanePeer& peer = *page.peer;
    if (!peer.path.is_open()) continue;
    uint64_t next = std::min(usable_until_ns(page), give_up_ns(page));
    if (now_ns_ >= next) {
      // It may have ended long ago, while the lane was not driven.
      drain(peer);
      const bool is_overdue = page.is_read() && page.peer == &peer &&
                              now_ns_ >= std::min(usable_until_ns(page), give_up_ns(page));
      if (is_overdue) give_up(peer);
      watch_ns_ = std::min(watch_ns_, now_ns_);
      continue;
    }
    const bool may_hedge = page.fetch->options.hedge && !page.is.held && !page.is.hedge &&
                           !details_of(page).history.hedged && peer.latency.known();
    if (may_hedge) {
      const uint64_t slow = page.posted_ns + peer.latency.p98_ns();
      if (now_ns_ >= slow) {
        hedge(page);
      } else {
        next = std::min(next, slow);
      }
    }
    watch_ns_ = std::min(watch_ns_, next);
  }
  if (index_reads_.under_way() > 0) watch_index_reads();
}

// Whether pages that have their verdict take more than half of what may be under way at the peer.
bool LaneEngine::crowded(const LanePeer& peer) const {
  return 2 * peer.held > most_at_one() || 2 * peer.held_bytes > peer.window.bytes();
}

// When the peer is silent, if nothing comes until then. A lane that nobody drove has heard nothing.
uint64_t LaneEngine::silent_ns(const LanePeer& peer) const {
  const uint64_t after_ns = peer.latency.known() ? std::clamp(kHopeless * peer.latency.p98_ns(),
                                                              kLeastSilentNs, kMostSilentNs)
                                                 : kSilentNs;
  return std::max({peer.asked_ns, peer.heard_ns, present_ns_}) + after_ns;
}

// What is asked of a silent node stays asked: no page is given up, and one that comes after all is
// as good as any. But no new page asks it, and others need not wait for it.
void LaneEngine::find_silent() {
  any_silent_ = false;
  for (const auto& peer : peers_) {
    peer->silent = !single_ && peer->path.in_flight() > 0 && now_ns_ >= silent_ns(*peer);
    any_silent_ |= peer->silent;
  }
}

// When the path of the page's peer is given up, if nothing at all comes over it until then and
// other pages wait for that: another replica may have the page, of whose time half is over,
// or the pages that are held take the window. Never, as long as the time of the peer's reads is
// unknown; but what can bring nothing is given up.
uint64_t LaneEngine::give_up_ns(PageInFlight& page) {
  if (single_) return kNever;
  const LanePeer& peer = *page.peer;
  const uint64_t hopeless_ns =
      std::max(page.posted_ns, peer.heard_ns) + kHopeless * peer.latency.p98_ns();
  if (page.is.held) return peer.latency.known() && crowded(peer) ? hopeless_ns : kNever;
  if (page.is.hedge || twin_of(page) != kNoTwin) return kNever;
  if (!peer.latency.known() && !page.is.broken) return kNever;
  const PageHistory& history = details_of(page).history;
  const ReplicaStates states = states_of(page);
  const auto others = static_cast<Replicas>(states.open & states.trusted &
                                            ~(history.asked | history.said() | history.gone));
  if (others == 0) return kNever;
  const uint64_t half = time_left(*page.fetch, page.posted_ns) / 2;
  return std::max(page.posted_ns + half, hopeless_ns);
}

size_t LaneEngine::in_flight() const {
  size_t sum = 0;
  for (const LanePeer* peer : busy_) sum += peer->path.in_flight();
  return sum;
}

}  // namespace farpage
