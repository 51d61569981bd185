#include "node/store/slot_table.h"

#include <utility>

#include "base/check.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

constexpr uint32_t kMostLooks = 4096;  // for a victim that was not touched

}  // namespace

SlotTable::SlotTable(uint32_t slots, uint64_t reuse_ns) : info_(slots), reuse_ns_(reuse_ns) {
  for (uint32_t slot = slots; slot-- > 0;) {
    info_[slot].next = free_head_;
    free_head_ = slot;
  }
  free_count_ = slots;
}

std::optional<uint32_t> SlotTable::take(uint64_t now_ns) {
  uint32_t slot = free_head_;
  if (slot != kNone) {
    free_head_ = info_[slot].next;
    --free_count_;
  } else {
    if (next_take_ns() > now_ns) return std::nullopt;
    slot = cooling_.head;
    cooling_.head = info_[slot].next;
    if (cooling_.head == kNone) cooling_.tail = kNone;
    --cooling_.count;
  }
  info_[slot].state = State::kHeld;
  return slot;
}

void SlotTable::release(uint32_t slot) {
  FARPAGE_CHECK(info_[slot].state == State::kHeld);
  info_[slot].state = State::kFree;
  info_[slot].next = free_head_;
  free_head_ = slot;
  ++free_count_;
}

void SlotTable::publish(uint32_t slot) {
  FARPAGE_CHECK(info_[slot].state == State::kHeld);
  info_[slot].state = State::kLive;
  info_[slot].touched = false;
  ++live_count_;
}

void SlotTable::kill(uint32_t slot) {
  FARPAGE_CHECK(info_[slot].state == State::kLive);
  unpin(slot);
  info_[slot].state = State::kDead;
  info_[slot].death = {epoch_, dead_.tail};
  --live_count_;
  append(dead_, slot);
}

bool SlotTable::serves_fills(uint32_t slot) const {
  if (!is_dead(slot)) return false;
  return info_[slot].death.epoch == epoch_ || !enforced(Guard::kBytesOfTheEpochBefore);
}

std::optional<uint32_t> SlotTable::oldest_dead() const {
  return dead_.head == kNone ? std::nullopt : std::optional(dead_.head);
}

void SlotTable::append(Queue& queue, uint32_t slot) {
  info_[slot].next = kNone;
  (queue.tail == kNone ? queue.head : info_[queue.tail].next) = slot;
  queue.tail = slot;
  ++queue.count;
}

void SlotTable::forget_death(uint32_t slot) {
  const uint32_t previous = info_[slot].death.previous;
  const uint32_t next = info_[slot].next;
  (previous == kNone ? dead_.head : info_[previous].next) = next;
  (next == kNone ? dead_.tail : info_[next].death.previous) = previous;
  --dead_.count;
}

void SlotTable::pin(uint32_t slot) {
  FARPAGE_CHECK(info_[slot].state == State::kLive);
  if (!std::exchange(info_[slot].pinned, true)) ++pinned_count_;
}

void SlotTable::unpin(uint32_t slot) {
  if (std::exchange(info_[slot].pinned, false)) --pinned_count_;
}

void SlotTable::retire(uint32_t slot, uint64_t now_ns) {
  const State before = info_[slot].state;
  FARPAGE_CHECK(before != State::kFree && before != State::kCooling);
  unpin(slot);
  live_count_ -= before == State::kLive ? 1 : 0;
  if (before == State::kDead) forget_death(slot);
  info_[slot].state = State::kCooling;
  info_[slot].retired_ns = now_ns;
  append(cooling_, slot);
}

uint64_t SlotTable::next_take_ns() const {
  if (free_head_ != kNone) return 0;
  if (cooling_.head == kNone) return kNever;
  return info_[cooling_.head].retired_ns + (enforced(Guard::kReuseWait) ? reuse_ns_ : 0);
}

void SlotTable::touch(uint32_t slot) {
  if (slot < info_.size() && info_[slot].state == State::kLive) info_[slot].touched = true;
}

std::optional<uint32_t> SlotTable::choose_victim() {
  if (live_count_ == pinned_count_) return std::nullopt;
  std::optional<uint32_t> first;
  for (uint32_t looks = 1;; ++looks) {
    const uint32_t slot = hand_;
    hand_ = hand_ + 1 < info_.size() ? hand_ + 1 : 0;
    if (info_[slot].state != State::kLive || info_[slot].pinned) continue;
    if (!info_[slot].touched) return slot;
    info_[slot].touched = false;
    if (!first) first = slot;
    if (looks >= kMostLooks) return first;
  }
}

}  // namespace farpage
