#include <algorithm>
#include <atomic>

#include "tier/lane_engine.h"

namespace farpage {
namespace {

// Several channels cannot be waited for at one time: each is looked at again after so long.
constexpr uint64_t kLookNs = 20 * kMicrosecond;
constexpr uint64_t kIdleLookNs = kMillisecond;

}  // namespace

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
  look_after(0);
  if (peers_.size() == 1) return peers_[0]->path.wait(until_ns);
  const uint64_t now = clock_.now_ns();
  for (LanePeer* peer : busy_) {
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
