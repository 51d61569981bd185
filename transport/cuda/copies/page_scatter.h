#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "integrity/page_key.h"
#include "transport/cuda/copies/kernel_queue.h"
#include "transport/cuda/memory/paged_memory.h"

namespace farpage::cuda {

// A page that lies in the device's memory, or that a copy brings to a slot there, and what it has
// to be.
struct StagedPage {
  PageKey key;
  uint64_t version = 0;
  uint32_t crc = 0;      // of its payload
  uint64_t address = 0;  // of its payload: a multiple of 16
  uint64_t block = 0;    // where it goes
};

// Pages on their way to paged memory. Copies bring the payloads of a batch to a slot in the
// device's memory; behind them a kernel checks each page there, and writes those that are good to
// their blocks. The block of any other page is not touched.
//
// One thread, on which the context is current; made and destroyed on any. No batch is under way
// when it goes.
class PageScatter {
 public:
  static constexpr uint32_t kSlots = 8;

  // Kernels move 16 bytes at a time.
  static bool can_take(const PagedMemory& memory);
  // Loads kernels, and takes memory of the device: kSlots slots of `slot_bytes`. A slot has at most
  // so many pages. kUnavailable, kInvalid, with a sentence: no kernels, or no memory.
  static Result<std::unique_ptr<PageScatter>> make(const PagedMemory& memory, uint64_t slot_bytes,
                                                   uint32_t most_pages);
  ~PageScatter();
  PageScatter(const PageScatter&) = delete;
  PageScatter& operator=(const PageScatter&) = delete;

  bool has_slot() const { return !free_.empty(); }
  uint32_t take_slot();
  void give_back(uint32_t slot) { free_.push_back(slot); }
  uint64_t address(uint32_t slot) const { return device_ + slot * slot_bytes_; }

  // The slot's next page.
  void add(uint32_t slot, const StagedPage& page);
  // On queue().stream(), for the pages that were added since the slot was taken. After a failure no
  // kernel is under way.
  Result<void> start(uint32_t slot);
  KernelQueue& queue() { return *queue_; }
  // Once that has ended: whether the page lies in its block, by the order of add().
  bool is_written(uint32_t slot, uint32_t page) const;

 private:
  // Of a slot, in the queue's memory.
  struct Pinned {
    uint64_t headers = 0;
    uint64_t items = 0;
    uint64_t findings = 0;
  };

  PageScatter(const PagedMemory& memory, uint64_t slot_bytes, uint32_t most_pages);
  Result<void> open();
  Result<void> copy_pieces();
  Pinned pinned(uint32_t slot) const;

  const PagedMemory& memory_;
  const uint64_t slot_bytes_;
  const uint32_t most_pages_;
  std::unique_ptr<KernelQueue> queue_;
  uint64_t device_ = 0;  // slots, and behind them the pieces' addresses; 0: nothing
  std::vector<uint32_t> free_;
  std::vector<uint32_t> counts_;  // pages of each slot
};

}  // namespace farpage::cuda
