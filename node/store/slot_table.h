#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace farpage {

// The life of a node's slots:
//
//   free ──take──► held ──publish──► live ──retire──► cooling ──take, L(1+ε) later──► held
//                   ├───release───► free  └──kill──► dead ──retire──► cooling
//                   └───retire────► cooling
//
// Readers of a previous run may still read the pages that it left in its slots, so such a slot is
// retired and not released. Only other nodes read a dead slot's page, to fill themselves, and only
// in the epoch that killed it. A cooling slot's live word was cleared, fenced, and only then
// stamped (protocol rule 3): no reader can still be using it once the reuse time has passed.
// Sixteen bytes a slot, and nothing here walks all of them. One thread at a time.
class SlotTable {
 public:
  // `reuse_ns` is L(1+ε).
  SlotTable(uint32_t slots, uint64_t reuse_ns);

  // A free slot, or else the one that has cooled longest if its time is over.
  std::optional<uint32_t> take(uint64_t now_ns);
  void release(uint32_t slot);
  void publish(uint32_t slot);
  void kill(uint32_t slot);
  void retire(uint32_t slot, uint64_t now_ns);

  // What is dead now, died in an epoch before.
  void begin_epoch() { ++epoch_; }
  // Dead, and killed in this epoch.
  bool serves_fills(uint32_t slot) const;
  // That was killed first; nothing: none is dead.
  std::optional<uint32_t> oldest_dead() const;

  // Until unpin() or retire() no victim.
  void pin(uint32_t slot);
  void unpin(uint32_t slot);

  // When take() will next succeed if nothing is retired meanwhile; kNever if nothing cools.
  uint64_t next_take_ns() const;

  // A reader has used it: the clock passes it over once.
  void touch(uint32_t slot);
  // CLOCK (second chance) over the live slots that are not pinned; nothing when there are none. If
  // it meets only touched ones for long, the first of them goes.
  std::optional<uint32_t> choose_victim();

  uint32_t size() const { return static_cast<uint32_t>(info_.size()); }
  bool is_live(uint32_t slot) const { return info_[slot].state == State::kLive; }
  bool is_dead(uint32_t slot) const { return info_[slot].state == State::kDead; }
  bool is_pinned(uint32_t slot) const { return info_[slot].pinned; }
  uint32_t free_count() const { return free_count_; }
  uint32_t live_count() const { return live_count_; }
  uint32_t cooling_count() const { return cooling_.count; }
  uint32_t dead_count() const { return dead_.count; }
  static constexpr uint64_t bytes_per_slot() { return sizeof(Info); }

 private:
  enum class State : uint8_t { kFree, kHeld, kLive, kDead, kCooling };
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Death {
    uint32_t epoch;
    uint32_t previous;  // in the queue of dead slots
  };
  struct Info {
    union {
      uint64_t retired_ns = 0;  // of a cooling slot
      Death death;              // of a dead one
    };
    uint32_t next = kNone;  // in the free list, or in the queue of cooling or of dead slots
    State state = State::kFree;
    bool touched = false;
    bool pinned = false;
  };
  static_assert(sizeof(Info) == 16);
  struct Queue {
    uint32_t head = kNone;
    uint32_t tail = kNone;
    uint32_t count = 0;
  };
  void append(Queue& queue, uint32_t slot);
  void forget_death(uint32_t slot);

  std::vector<Info> info_;
  uint64_t reuse_ns_;
  uint32_t free_head_ = kNone;
  Queue cooling_;
  Queue dead_;
  uint32_t epoch_ = 0;  // begin_epoch() calls so far
  uint32_t free_count_ = 0;
  uint32_t live_count_ = 0;
  uint32_t pinned_count_ = 0;
  uint32_t hand_ = 0;
};

}  // namespace farpage
