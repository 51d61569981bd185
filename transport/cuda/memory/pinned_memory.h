#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// Host memory of our own that a device's copy engine reaches. It goes once no copy uses it; after
// an error that has ended the context, the driver keeps the pages pinned until the process ends.
class PinnedMemory {
 public:
  // kExhausted: this process may not take so much, or the driver may not pin it. kUnavailable: the
  // driver gives no address.
  static Result<PinnedMemory> make(std::shared_ptr<const GpuContext> context, uint64_t bytes);
  PinnedMemory(PinnedMemory&&) noexcept = default;
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  ~PinnedMemory();

  std::byte* data() const { return memory_.data(); }
  uint64_t bytes() const { return memory_.bytes(); }
  uint64_t address() const { return address_; }  // the device's, of data()

 private:
  PinnedMemory(std::shared_ptr<const GpuContext> context, Mapping memory, uint64_t address)
      : context_(std::move(context)), memory_(std::move(memory)), address_(address) {}

  std::shared_ptr<const GpuContext> context_;  // null: moved from
  Mapping memory_;
  uint64_t address_;
};

}  // namespace farpage::cuda
