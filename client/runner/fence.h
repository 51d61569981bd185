#pragma once

#include <farpage/fence.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/status.h"
#include "tier/client.h"

namespace farpage {

// Tells whoever reads a piece of memory, a GPU above all, that a fetch has its verdicts, and which
// of its pages are ready: farpage_fence_words, and the bits behind it. A reader that finds
// `decided` at `begun` finds the bits of that fetch, until the next begin(). One operation at a
// time. begin() and clear() by any thread, decide() by one.
class Fence {
 public:
  static constexpr uint32_t kMostPages = 1 << 24;
  static constexpr uint64_t bytes_for(uint32_t pages) {
    return sizeof(farpage_fence_words) + words_for(pages) * sizeof(uint32_t);
  }

  // `memory`: zeros, aligned for the words, and bytes_for(most_pages) long. It outlives the fence.
  Fence(std::span<std::byte> memory, uint32_t most_pages);

  // No page is ready from now on. kInvalid: more pages than there are bits for; or the last
  // operation has no verdicts yet, and then nothing has changed.
  Result<void> begin(size_t pages);
  // Once for each begin() that went well, behind its return. None: all are to be computed.
  void decide(std::span<const PageVerdict> verdicts);
  // No page is ready from now on. False: an operation is under way, and nothing has changed.
  bool clear();

  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }

 private:
  static constexpr uint64_t words_for(uint64_t pages) { return (pages + 31) / 32; }
  bool is_under_way() const { return decided_.load(std::memory_order_acquire) != begun(); }
  void clear_bits();

  std::atomic_ref<uint64_t> begun_;
  std::atomic_ref<uint64_t> decided_;
  std::atomic_ref<uint64_t> pages_;
  std::span<uint32_t> bits_;
  uint32_t most_pages_;
  std::mutex mutex_;  // of begin() and clear()
};

}  // namespace farpage
