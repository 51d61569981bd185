#include "node/fleet/foreign_pages.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

// All turns together take half a view's time, as no put is taken for a whole one; and longer where
// they would else take more than a tenth of the thread. A small pool takes its turns too.
constexpr uint64_t kTurnEveryNs = kMillisecond;
constexpr uint64_t kTurnNs = kTurnEveryNs / 10;
constexpr uint64_t kTurnsOfASmallPool = 64;
constexpr uint64_t kSlotsAtLeast = 256;  // of one that is not small
constexpr uint32_t kSlotsByOneClock = 128;

uint32_t slots_a_turn(uint64_t slots, uint64_t view_ns) {
  const uint64_t turns = std::max<uint64_t>(1, view_ns / 2 / kTurnEveryNs);
  const uint64_t small = std::clamp<uint64_t>(slots / kTurnsOfASmallPool, 1, kSlotsAtLeast);
  return static_cast<uint32_t>(std::max(slots / turns + 1, small));
}

}  // namespace

ForeignPages::ForeignPages(Runtime& runtime, PageStore& store, const NodeEpoch& epoch,
                           uint64_t view_ns, std::function<void()> done)
    : runtime_(runtime),
      store_(store),
      epoch_(epoch),
      slots_a_turn_(slots_a_turn(store.slots().size(), view_ns)),
      done_(std::move(done)),
      lost_(epoch.self().node),
      next_(store.slots().size()),
      timer_(runtime, [this] { turn(); }) {}

void ForeignPages::begin_epoch() {
  store_.begin_epoch();
  lost_.enter(epoch_.epoch());
  const bool kills = lost_.any() && enforced(Guard::kDropOnEntering);
  next_ = kills ? 0 : store_.slots().size();
  timer_.disarm();
  timer_.arm_now();
}

void ForeignPages::kill(uint32_t first, uint32_t end) {
  first = std::max(first, next_);
  end = std::min(end, store_.slots().size());
  if (first >= end) return;
  store_.kill_if(first, end, [this](const PageKey& key) { return lost_.has(key); });
}

void ForeignPages::turn() {
  const uint64_t began_ns = runtime_.clock().now_ns();
  if (!kill_some(began_ns + kTurnNs)) return timer_.arm(began_ns + kTurnEveryNs);
  lost_.judged();
  done_();
}

// True: nothing is left to do.
bool ForeignPages::kill_some(uint64_t until_ns) {
  const uint32_t slots = store_.slots().size();
  for (uint32_t left = slots_a_turn_; left > 0;) {
    const uint32_t some = std::min(kSlotsByOneClock, left);
    const uint32_t end = next_ + std::min(slots - next_, some);
    kill(next_, end);
    next_ = end;
    if (next_ == slots) return true;
    left -= some;
    if (runtime_.clock().now_ns() >= until_ns) break;
  }
  return false;
}

}  // namespace farpage
