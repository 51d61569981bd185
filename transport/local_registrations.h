#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/memory.h"

namespace farpage {

// Which local memory is registered. Bytes move when a channel is polled, which may be after their
// landing place has gone: each looks here first. Thread-safe; is_live() is wait-free.
class LocalRegistrations {
 public:
  static constexpr uint32_t kMost = 16'384;

  LocalRegistrations() {
    for (uint32_t index = kMost; index-- > 0;) free_.push_back(index);
  }

  // A key that has not been given out before; nothing when too many are registered.
  std::optional<uint64_t> add() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::nullopt;
    const uint32_t index = free_.back();
    free_.pop_back();
    const uint64_t generation = ++last_generation_;
    generations_[index].store(generation, std::memory_order_release);
    return generation << 32 | index;
  }

  void remove(uint64_t key) {
    std::lock_guard lock(mutex_);
    const auto index = static_cast<uint32_t>(key);
    generations_[index].store(0, std::memory_order_release);
    free_.push_back(index);
  }

  bool is_live(uint64_t key) const {
    const uint64_t generation = key >> 32;  // never 0 in a key that add() has made
    const auto index = static_cast<uint32_t>(key) % kMost;
    return generation != 0 && generations_[index].load(std::memory_order_acquire) == generation;
  }

 private:
  std::mutex mutex_;
  std::vector<uint32_t> free_;
  uint64_t last_generation_ = 0;
  std::array<std::atomic<uint64_t>, kMost> generations_{};
};

// Host memory of this process, for as long as the region lives.
Result<Region> register_host_memory(const std::shared_ptr<LocalRegistrations>& registrations,
                                    const MemoryRange& range);

}  // namespace farpage
