#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>

#include "tier/fetch/lane_engine.h"

namespace farpage {
namespace {

// Channels that have no descriptor cannot be waited for at one time: each is looked at again after
// so long.
constexpr uint64_t kLookNs = 20 * kMicrosecond;
constexpr uint64_t kIdleLookNs = kMillisecond;

}  // namespace

uint64_t LaneEngine::next_event_ns() const {
  uint64_t next = in_flight() > 0 ? watch_ns_ : kNever;
  for (const FetchState* fetch : active_) {
    if (fetch->pending > 0) next = std::min(next, fetch->deadline_ns);
  }
  for (const QuestionState* question : index_reads_.questions()) {
    next = std::min(next, question->until_ns);
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
  // Nothing tells of a check's end.
  if (checks_.any()) until_ns = std::min(until_ns, clock_.now_ns() + kLookNs);
  // A channel's own wait hears of nothing else.
  if (peers_.size() == 1 && !allows_interrupts_) {
    look_after(0);
    return peers_[0]->path.wait(until_ns);
  }
  if (!wait_for_answers(std::min(until_ns, due_ns_))) look_at_each(until_ns);
  interrupts_seen_ = interrupts_.load();
}

void LaneEngine::interrupt() {
  interrupts_.fetch_add(1);
  if (signal_ != nullptr) signal_->tell();
}

// Sleeps until a node that has been asked has answered, the runtime has changed, or the deadline,
// or returns earlier. False: no peer has been asked, or there is no descriptor to wait on.
bool LaneEngine::wait_for_answers(uint64_t until_ns) {
  if (signal_ == nullptr || in_flight() == 0) return false;
  // Each peer that was asked has one of the lane's pages in flight, so that there are no more.
  std::array<pollfd, kWindow + 1> awaited;
  size_t count = 0;
  uint64_t spin_ns = 0;
  awaited[count++] = {signal_->descriptor(), POLLIN, 0};
  for (const LanePeer* peer : busy_) {
    // Of a path that was given up, the runtime tells the end.
    if (peer->path.in_flight() == 0 || !peer->path.is_open()) continue;
    const int descriptor = peer->path.descriptor();
    if (descriptor < 0 || count == awaited.size()) return false;
    awaited[count++] = {descriptor, POLLIN, 0};
    spin_ns = std::max(spin_ns, peer->path.spin_ns());
  }
  if (expects_soon(spin_ns)) return true;
  look_after(0);
  for (LanePeer* peer : busy_) {
    if (peer->path.in_flight() == 0 || !peer->path.is_open()) continue;
    until_ns = std::min(until_ns, peer->path.arm());
    if (until_ns == 0) return true;
  }
  signal_->arm();
  const uint64_t now = clock_.now_ns();
  // A page may also wait for a node for reasons that nothing announces.
  if (waiting_ > 0) until_ns = std::min(until_ns, now + kIdleLookNs);
  if (runtime_.changes() != changes_ || is_interrupted() || until_ns <= now) return true;
  const uint64_t left = std::min(until_ns - now, kSecond);
  const timespec timeout = {static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
  ::ppoll(awaited.data(), count, &timeout, nullptr);
  if (awaited[0].revents != 0) signal_->clear();
  return true;
}

// Keeps the processor for so long after something has moved: the next turn looks at every channel.
bool LaneEngine::expects_soon(uint64_t spin_ns) {
  if (spin_ns == 0) return false;
  const uint64_t now = clock_.now_ns();
  const size_t under_way = in_flight();
  if (still_.steps != steps_ || still_.in_flight != under_way) still_ = {now, steps_, under_way};
  if (now - still_.since_ns >= spin_ns) return false;
  ::sched_yield();  // to a node's thread, if it is on this core
  return true;
}

// Where nothing tells of all that may come.
void LaneEngine::look_at_each(uint64_t until_ns) {
  look_after(0);
  const uint64_t now = clock_.now_ns();
  for (LanePeer* peer : busy_) {
    if (peer->path.in_flight() == 0) continue;
    return peer->path.wait(std::min(until_ns, now + kLookNs));
  }
  fleet_->runtime().wait_until(std::min(until_ns, now + kIdleLookNs), [this] {
    return is_interrupted() || fleet_->number() != fleet_number_ ||
           std::ranges::any_of(
               peers_, [](const auto& peer) { return peer->member && peer->path.changed(); });
  });
}

template <typename Ready>
void LaneEngine::drive(uint64_t until_ns, const Ready& ready) {
  if (progress() || ready()) return;
  // There is something to post.
  const bool is_idle = in_flight() == 0 && !checks_.any();
  if (single_ && by_member_[0]->path.is_open() && is_idle) return;
  wait(std::min(until_ns, next_event_ns()));
}

void LaneEngine::wait_done(FetchState* fetch) {
  while (fetch->pending > 0) drive(kNever, [fetch] { return fetch->pending == 0; });
}

void LaneEngine::wait_done(QuestionState* question) {
  while (!question->done()) drive(kNever, [question] { return question->done(); });
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
