#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "transport/cuda/copies/kernel_queue.h"

namespace farpage::cuda {

// A page that a copy brings to a device's address.
struct CopiedPage {
  uint64_t device = 0;
  uint32_t bytes = 0;
};

// The device counts a CRC over each page where a copy has brought it, so that a byte that goes
// wrong on the last way is seen. Pages are of batches by number, as those of a CopyQueue.
//
// One thread, on which the context is current; made and destroyed on any. No batch is under way
// when it goes.
class CopyChecks {
 public:
  // `kernels`: loaded into this context; they are unloaded with this.
  static Result<std::unique_ptr<CopyChecks>> make(const std::shared_ptr<const GpuContext>& context,
                                                  const PageKernels& kernels, uint32_t batches,
                                                  uint32_t most_pages);

  // The kernel reads whole words.
  static bool can_check(uint64_t device) { return device % sizeof(uint32_t) == 0; }
  uint32_t most_pages() const { return most_pages_; }

  // What start() of this batch, which is not under way, is to look at: at most most_pages(), all of
  // which can_check().
  void choose(uint32_t batch, std::span<const CopiedPage> pages);
  // On stream(). After a failure no kernel is under way.
  Result<void> start(uint32_t batch, uint32_t pages);
  KernelQueue& queue() { return *queue_; }
  const KernelQueue& queue() const { return *queue_; }
  Stream stream() const { return queue_->stream(); }

  // Once the batch has ended: the CRC-32C of its page, by the order of choose().
  uint32_t crc(uint32_t batch, uint32_t page) const { return crcs()[first_of(batch) + page]; }

 private:
  CopyChecks(std::unique_ptr<KernelQueue> queue, uint32_t batches, uint32_t most_pages);
  uint64_t first_of(uint32_t batch) const { return uint64_t{batch} * most_pages_; }
  PageItem* items() const { return reinterpret_cast<PageItem*>(queue_->data()); }
  uint32_t* crcs() const { return reinterpret_cast<uint32_t*>(queue_->data() + crcs_offset_); }

  // Its memory: PageItem[batch][page], and behind them uint32_t[batch][page].
  const std::unique_ptr<KernelQueue> queue_;
  const uint64_t crcs_offset_;
  const uint32_t most_pages_;
};

}  // namespace farpage::cuda
