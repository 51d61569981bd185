#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "transport/cuda/copies/kernel_queue.h"
#include "transport/cuda/memory/paged_memory.h"

namespace farpage::cuda {

// Slots in the device's memory for pages on their way to paged memory, or from there, by number.
// Pinned memory has what a kernel is told of each page, and what it says of it; behind the slots
// lies where the pieces are.
//
// One thread, on which the context is current; made and destroyed on any. No kernel is under way
// when it goes.
class PagedSlots {
 public:
  static constexpr uint32_t kCount = 8;

  // Loads kernels, and takes memory of the device: kCount slots of `slot_bytes`, with at most so
  // many pages each. `spare_bytes` of the pinned memory are the caller's. kUnavailable, kExhausted,
  // kInvalid, with a sentence: no kernels, or no memory.
  static Result<std::unique_ptr<PagedSlots>> make(const PagedMemory& memory, uint64_t slot_bytes,
                                                  uint32_t most_pages, uint64_t spare_bytes = 0);
  ~PagedSlots();
  PagedSlots(const PagedSlots&) = delete;
  PagedSlots& operator=(const PagedSlots&) = delete;

  bool has_free() const { return !free_.empty(); }
  uint32_t take();
  void give_back(uint32_t slot) { free_.push_back(slot); }
  uint64_t address(uint32_t slot) const { return device_ + slot * slot_bytes_; }

  uint32_t pages(uint32_t slot) const { return counts_[slot]; }
  // The slot's next page; its length and checksum are filled in.
  void add(uint32_t slot, PageItem item);
  // For a kernel: the pages that were added since the slot was taken.
  PageBatch batch(uint32_t slot) const;
  // Whether a kernel that has ended says so of the page, by the order of add().
  bool is_good(uint32_t slot, uint32_t page) const;
  // Has a kernel refuse a page, and waits for that. The driver loads a kernel when it is first
  // launched, and may then wait for others: for one, perhaps, that waits at a fence. `start`: on
  // queue().stream(), with what it failed with.
  Result<void> try_kernel(const std::function<Result<void>(const PageBatch&)>& start);

  KernelQueue& queue() { return *queue_; }
  std::byte* spare() const { return queue_->data() + spare_at(); }
  uint64_t spare_address() const { return queue_->address() + spare_at(); }

 private:
  PagedSlots(const PagedMemory& memory, uint64_t slot_bytes, uint32_t most_pages);
  Result<void> open(uint64_t spare_bytes);
  Result<void> copy_pieces();
  uint64_t items_at(uint32_t slot) const;
  uint64_t findings_at(uint32_t slot) const;
  uint64_t spare_at() const;

  const PagedMemory& memory_;
  const uint64_t slot_bytes_;
  const uint32_t most_pages_;
  std::unique_ptr<KernelQueue> queue_;
  uint64_t device_ = 0;  // slots, and behind them the pieces' addresses; 0: nothing
  std::vector<uint32_t> free_;
  std::vector<uint32_t> counts_;  // pages of each slot
};

}  // namespace farpage::cuda
