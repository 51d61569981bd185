#pragma once

#include <atomic>
#include <cstdint>

namespace farpage::shm {

// Immediates from one process to another, in memory that both can write: one producer, one
// consumer. Each end keeps its own index to itself and only publishes it here; the other's is that
// end's word, and one that cannot be true means that the peer is broken or hostile.
struct ImmediateRing {
  static constexpr uint32_t kEntries = 512;

  alignas(64) std::atomic<uint32_t> head;
  alignas(64) std::atomic<uint32_t> tail;
  std::atomic<uint32_t> entries[kEntries];
};

enum class RingResult : uint8_t { kDone, kNothing, kBroken };  // kNothing: full, or empty

class RingProducer {
 public:
  explicit RingProducer(ImmediateRing& ring) : ring_(ring) {}

  RingResult push(uint32_t immediate) {
    const uint32_t used = tail_ - ring_.head.load(std::memory_order_acquire);
    if (used > ImmediateRing::kEntries) return RingResult::kBroken;
    if (used == ImmediateRing::kEntries) return RingResult::kNothing;
    ring_.entries[tail_ % ImmediateRing::kEntries].store(immediate, std::memory_order_relaxed);
    ring_.tail.store(++tail_, std::memory_order_release);
    return RingResult::kDone;
  }

 private:
  ImmediateRing& ring_;
  uint32_t tail_ = 0;
};

class RingConsumer {
 public:
  explicit RingConsumer(ImmediateRing& ring) : ring_(ring) {}

  RingResult pop(uint32_t& immediate) {
    const uint32_t available = ring_.tail.load(std::memory_order_acquire) - head_;
    if (available > ImmediateRing::kEntries) return RingResult::kBroken;
    if (available == 0) return RingResult::kNothing;
    immediate = ring_.entries[head_ % ImmediateRing::kEntries].load(std::memory_order_relaxed);
    ring_.head.store(++head_, std::memory_order_release);
    return RingResult::kDone;
  }

 private:
  ImmediateRing& ring_;
  uint32_t head_ = 0;
};

// State that the two ends of a channel share; one memfd a channel. `unused` and `unused_ring` keep
// the layout that peers of earlier builds map.
struct ChannelMemory {
  std::atomic<uint64_t> id;
  std::atomic<uint32_t> connected;
  std::atomic<uint32_t> target_closed;
  uint32_t unused;
  ImmediateRing immediates;  // from the initiator to the target
  ImmediateRing unused_ring;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace farpage::shm
