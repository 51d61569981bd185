#include "node/store/slot_table.h"

#include <utility>

#include "base/check.h"
#include "pagetable/guards.h"

namespace farpage {

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
    slot = cooling_head_;
    cooling_head_ = info_[slot].next;
    if (cooling_head_ == kNone) cooling_tail_ = kNone;
    --cooling_count_;
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
  --live_count_;
  ++dead_count_;
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
  dead_count_ -= before == State::kDead ? 1 : 0;
  info_[slot].state = State::kCooling;
  info_[slot].retired_ns = now_ns;
  info_[slot].next = kNone;
  if (cooling_tail_ == kNone) {
    cooling_head_ = slot;
  } else {
    info_[cooling_tail_].next = slot;
  }
  cooling_tail_ = slot;
  ++cooling_count_;
}

uint64_t SlotTable::next_take_ns() const {
  if (free_head_ != kNone) return 0;
  if (cooling_head_ == kNone) return kNever;
  return info_[cooling_head_].retired_ns + (enforced(Guard::kReuseWait) ? reuse_ns_ : 0);
}

void SlotTable::touch(uint32_t slot) {
  if (slot < info_.size() && info_[slot].state == State::kLive) info_[slot].touched = true;
}

std::optional<uint32_t> SlotTable::choose_victim() {
  if (live_count_ == pinned_count_) return std::nullopt;
  while (true) {
    const uint32_t slot = hand_;
    hand_ = hand_ + 1 < info_.size() ? hand_ + 1 : 0;
    if (info_[slot].state != State::kLive || info_[slot].pinned) continue;
    if (!info_[slot].touched) return slot;
    info_[slot].touched = false;
  }
}

}  // namespace farpage
