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
constexpr uint64_t kLookShare = 64;  // of the time that a check has lasted, until the next look

}  // namespace

// Nothing tells of a check's end, and one that hangs is not to take a core.
uint64_t LaneEngine::next_check_ns() const {
  if (!checks_.any()) return kNever;
  const uint64_t now = clock_.now_ns();
  const uint64_t lasted_ns = now - std::min(now, checks_moved_ns_);
  return now + std::clamp(lasted_ns / kLookShare, kLookNs, kIdleLookNs);
}

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

// What threads sleep on: first a signal of each lane.
struct LaneEngine::Awaited {
  std::array<pollfd, 2 * (kPlaces + 1)> descriptors;
  size_t count = 0;
  uint64_t spin_ns = 0;

  // False: there is none, or no room.
  bool add(int descriptor) {
    if (descriptor < 0 || count == descriptors.size()) return false;
    descriptors[count++] = {descriptor, POLLIN, 0};
    return true;
  }
};

void LaneEngine::wait(uint64_t until_ns) {
  has_waited_ = true;
  until_ns = std::min(until_ns, next_check_ns());
  // A channel's own wait hears of nothing else, not of a dial that has failed.
  if (peers_.size() == 1 && peers_[0]->path.is_open() && !allows_interrupts_) {
    look_after(0);
    if (is_at_work() && is_behind()) {
      ::sched_yield();  // to the thread that publishes what is new
      return;
    }
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
  LaneEngine* const lane = this;
  return in_flight() > 0 && sleep({&lane, 1}, until_ns);
}

// False: something that one of them waits for has no descriptor.
bool LaneEngine::sleep(std::span<LaneEngine* const> lanes, uint64_t until_ns) {
  Awaited awaited;
  for (const LaneEngine* lane : lanes) {
    if (lane->signal_ == nullptr || !awaited.add(lane->signal_->descriptor())) return false;
  }
  for (const LaneEngine* lane : lanes) {
    if (!lane->add_to(awaited)) return false;
  }
  for (LaneEngine* lane : lanes) {
    if (lane->in_flight() > 0 && lane->expects_soon(awaited.spin_ns)) return true;
  }
  for (LaneEngine* lane : lanes) {
    until_ns = std::min(until_ns, lane->arm());
    if (until_ns == 0) return true;
  }
  const uint64_t now = lanes[0]->clock_.now_ns();
  if (until_ns <= now) return true;
  const uint64_t left = std::min(until_ns - now, kSecond);
  const timespec timeout = {static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
  ::ppoll(awaited.descriptors.data(), awaited.count, &timeout, nullptr);
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (awaited.descriptors[i].revents != 0) lanes[i]->signal_->clear();
  }
  return true;
}

bool LaneEngine::add_to(Awaited& awaited) const {
  // Each peer that was asked has one of the lane's pages in flight, so that there are no more.
  for (const LanePeer* peer : busy_) {
    // Of a path that was given up, the runtime tells the end.
    if (peer->path.in_flight() == 0 || !peer->path.is_open()) continue;
    if (!awaited.add(peer->path.descriptor())) return false;
    awaited.spin_ns = std::max(awaited.spin_ns, peer->path.spin_ns());
  }
  return true;
}

// From now on its descriptors tell what comes. Answers until when it may sleep; 0: something has
// come.
uint64_t LaneEngine::arm() {
  uint64_t until_ns = kNever;
  if (is_at_work()) look_after(0);
  for (LanePeer* peer : busy_) {
    if (peer->path.in_flight() == 0 || !peer->path.is_open()) continue;
    until_ns = std::min(until_ns, peer->path.arm());
    if (until_ns == 0) return 0;
  }
  signal_->arm();
  // A page may also wait for a node for reasons that nothing announces.
  const bool is_kept = waiting_ > 0 || put_off_ > 0 || (in_flight() == 0 && is_at_work());
  if (is_kept) until_ns = std::min(until_ns, clock_.now_ns() + kIdleLookNs);
  const bool has_changed = is_at_work() && runtime_.changes() != changes_;
  return has_changed || is_interrupted() ? 0 : until_ns;
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
  fleet_->runtime().wait_until(std::min(until_ns, now + kIdleLookNs),
                               [this] { return is_interrupted() || is_behind(); });
}

template <typename Ready>
void LaneEngine::drive(uint64_t until_ns, const Ready& ready) {
  if (progress() || ready()) return;
  if (has_to_post()) return;
  wait(std::min(until_ns, next_event_ns()));
}

bool LaneEngine::has_to_post() const {
  return single_ && is_at_work() && by_member_[0]->path.is_open() && in_flight() == 0 &&
         !checks_.any();
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

void LaneEngine::wait_moved(std::span<LaneEngine* const> lanes, uint64_t until_ns) {
  bool has_moved = false;
  for (LaneEngine* lane : lanes) has_moved |= lane->progress();
  if (has_moved) return;
  LaneEngine* looked_at = lanes[0];
  for (LaneEngine* lane : lanes) {
    if (!lane->is_at_work()) continue;
    if (lane->has_to_post()) return;
    lane->has_waited_ = true;
    until_ns = std::min({until_ns, lane->next_check_ns(), lane->next_event_ns(), lane->due_ns_});
    if (looked_at->in_flight() == 0) looked_at = lane;
  }
  if (!sleep(lanes, until_ns)) looked_at->look_at_each(until_ns);
  for (LaneEngine* lane : lanes) lane->interrupts_seen_ = lane->interrupts_.load();
}

}  // namespace farpage
