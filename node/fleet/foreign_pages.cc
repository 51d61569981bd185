#include "node/fleet/foreign_pages.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

// No put is taken for a whole view's time, so the walk is to take half of it, and a tenth of the
// thread at most; then half of the thread, because all puts of the fleet wait for it. What a late
// timer has missed, the next turn makes up for. A small pool takes its turns too.
constexpr uint64_t kTurnEveryNs = kMillisecond;
constexpr uint64_t kShare = 10;
constexpr uint64_t kShareOfALateWalk = 2;
constexpr uint64_t kMostNs = 500 * kMicrosecond;  // of one turn
constexpr uint64_t kTurnsOfASmallPool = 64;
constexpr uint64_t kSlotsAtLeast = 256;  // of one that is not small
constexpr uint32_t kSlotsByOneClock = 64;

}  // namespace

ForeignPages::ForeignPages(Runtime& runtime, PageStore& store, const NodeEpoch& epoch,
                           uint64_t view_ns, std::function<void()> done)
    : runtime_(runtime),
      store_(store),
      epoch_(epoch),
      walk_ns_(std::max<uint64_t>(1, view_ns / 2)),
      done_(std::move(done)),
      lost_(epoch.self().node),
      next_(store.slots().size()),
      timer_(runtime, [this] { turn(); }) {}

void ForeignPages::begin_epoch() {
  store_.begin_epoch();
  const uint64_t now = runtime_.clock().now_ns();
  if (lost_.enter(epoch_.epoch())) {
    next_ = 0;
    began_ns_ = last_turn_ns_ = now;
  }
  if (!lost_.any() || !enforced(Guard::kDropOnEntering)) next_ = store_.slots().size();
  timer_.disarm();
  timer_.arm(now);
}

void ForeignPages::kill(uint32_t first, uint32_t end) {
  const uint32_t from = std::max(first, next_);
  end = std::min(end, store_.slots().size());
  if (from >= end) return;
  store_.kill_if(from, end, [this](const PageKey& key) { return lost_.has(key); });
  if (first <= next_) next_ = end;
}

void ForeignPages::turn() {
  const uint64_t now = runtime_.clock().now_ns();
  const uint64_t share = now - began_ns_ > walk_ns_ ? kShareOfALateWalk : kShare;
  const uint64_t budget_ns = std::max(kTurnEveryNs, now - last_turn_ns_) / share;
  last_turn_ns_ = now;
  kill_some(now, now + std::min(budget_ns, kMostNs));
  if (next_ < store_.slots().size()) return timer_.arm(now + kTurnEveryNs);
  lost_.judged();
  done_();
}

void ForeignPages::kill_some(uint64_t now_ns, uint64_t until_ns) {
  const uint64_t slots = store_.slots().size();
  if (store_.slots().live_count() == 0) next_ = static_cast<uint32_t>(slots);
  const double walked = static_cast<double>(now_ns - began_ns_) / static_cast<double>(walk_ns_);
  const auto due = static_cast<uint64_t>(std::min(1.0, walked) * static_cast<double>(slots));
  const uint64_t small = std::clamp<uint64_t>(slots / kTurnsOfASmallPool, 1, kSlotsAtLeast);
  const uint64_t end = std::min(slots, std::max(due, next_ + small));
  while (next_ < end) {
    kill(next_, static_cast<uint32_t>(std::min<uint64_t>(end, next_ + kSlotsByOneClock)));
    if (runtime_.clock().now_ns() >= until_ns) return;
  }
}

}  // namespace farpage
