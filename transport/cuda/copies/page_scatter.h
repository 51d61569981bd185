#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "integrity/page_key.h"
#include "transport/cuda/copies/paged_slots.h"

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
  static constexpr uint32_t kSlots = PagedSlots::kCount;

  // Loads kernels, and takes memory of the device: kSlots slots of `slot_bytes`. A slot has at most
  // so many pages. Errors as of PagedSlots::make().
  static Result<std::unique_ptr<PageScatter>> make(const PagedMemory& memory, uint64_t slot_bytes,
                                                   uint32_t most_pages);

  bool has_slot() const { return slots_->has_free(); }
  uint32_t take_slot() { return slots_->take(); }
  void give_back(uint32_t slot) { slots_->give_back(slot); }
  uint64_t address(uint32_t slot) const { return slots_->address(slot); }

  // The slot's next page.
  void add(uint32_t slot, const StagedPage& page);
  // On queue().stream(), for the pages that were added since the slot was taken. After a failure no
  // kernel is under way.
  Result<void> start(uint32_t slot);
  KernelQueue& queue() { return slots_->queue(); }
  // Once that has ended: whether the page lies in its block, by the order of add().
  bool is_written(uint32_t slot, uint32_t page) const { return slots_->is_good(slot, page); }

 private:
  PageScatter(std::unique_ptr<PagedSlots> slots, uint64_t page_bytes, uint32_t most_pages)
      : slots_(std::move(slots)), page_bytes_(page_bytes), most_pages_(most_pages) {}
  Result<void> start_on(const PageBatch& batch);

  std::unique_ptr<PagedSlots> slots_;
  const uint64_t page_bytes_;
  const uint32_t most_pages_;
};

}  // namespace farpage::cuda
