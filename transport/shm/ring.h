#pragma once

#include <atomic>
#include <cstdint>

namespace farpage::shm {

// Immediates from one process to another, in memory that both can write: one producer, one
// consumer. Each side trusts only its own index; the other's is taken modulo the ring.
class ImmediateRing {
 public:
  static constexpr uint32_t kEntries = 512;

  // False: full.
  bool push(uint32_t immediate) {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) >= kEntries) return false;
    entries_[tail % kEntries].store(immediate, std::memory_order_relaxed);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  bool pop(uint32_t& immediate) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    immediate = entries_[head % kEntries].load(std::memory_order_relaxed);
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

 private:
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
  std::atomic<uint32_t> entries_[kEntries] = {};
};

// What the two ends of a channel share; one memfd a channel.
struct ChannelMemory {
  std::atomic<uint64_t> id;
  std::atomic<uint32_t> connected;
  std::atomic<uint32_t> closed[2];  // by the passive (0), by the active (1) end
  ImmediateRing inbox[2];           // of the passive, of the active end
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace farpage::shm
