#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "transport/cuda/copies/paged_slots.h"

namespace farpage::cuda {

// Pages on their way from paged memory. A kernel writes the pieces of each page to a slot in the
// device's memory, one behind the other; a copy behind it, on the slot's stream, brings them to the
// host.
//
// One thread, on which the context is current; made and destroyed on any. No batch is under way
// when it goes.
class PageGather {
 public:
  static constexpr uint32_t kSlots = PagedSlots::kCount;

  // Loads kernels, and takes memory of the device, as PageScatter::make().
  static Result<std::unique_ptr<PageGather>> make(const PagedMemory& memory, uint64_t slot_bytes,
                                                  uint32_t most_pages);
  ~PageGather();
  PageGather(const PageGather&) = delete;
  PageGather& operator=(const PageGather&) = delete;

  bool has_slot() const { return slots_->has_free(); }
  uint32_t take_slot() { return slots_->take(); }
  void give_back(uint32_t slot) { slots_->give_back(slot); }
  uint64_t address(uint32_t slot) const { return slots_->address(slot); }

  // The slot's next page: from this block, to so many bytes behind address(slot), a multiple of 16.
  void add(uint32_t slot, uint64_t block, uint64_t offset);
  // On stream(slot), for the pages that were added since the slot was taken. With a CUresult.
  int start(uint32_t slot);
  Stream stream(uint32_t slot) const { return streams_[slot % kStreams]; }
  // Once that has ended: whether all of these pages were written to the slot.
  bool are_there(uint32_t slot) const;

 private:
  // The kernels of some slots go on beside the copies of others.
  static constexpr uint32_t kStreams = 4;

  PageGather(std::shared_ptr<const GpuContext> context, std::unique_ptr<PagedSlots> slots)
      : context_(std::move(context)), slots_(std::move(slots)) {}
  Result<void> open();

  const std::shared_ptr<const GpuContext> context_;
  std::unique_ptr<PagedSlots> slots_;
  std::array<Stream, kStreams> streams_ = {};
};

}  // namespace farpage::cuda
