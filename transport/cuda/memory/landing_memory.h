#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/cuda/gpu_context.h"
#include "transport/memory.h"

namespace farpage::cuda {

// What makes writes of NICs visible to work that begins on the device afterwards.
enum class WriteFlush : uint8_t {
  kNone,      // they are, once the NIC has told of their end
  kByHost,    // cuFlushGPUDirectRDMAWrites
  kInStream,  // a wait on a stream, with CU_STREAM_WAIT_VALUE_FLUSH
};
// kUnavailable, with a sentence: no NIC reaches this device's memory, or nothing makes its writes
// visible. By the device's attributes, as cuda.h explains them.
Result<WriteFlush> write_flush(const Driver& driver, int device);

// How a NIC's driver learns where a device's memory lies.
enum class LandingWay : uint8_t { kDmaBuf, kPeerMemory };

// Memory of a device that NICs write to, of our own. A NIC's driver takes range(): then
// registered(). It goes once no NIC writes there. Any thread.
//
// CUDA wants SYNC_MEMOPS for memory that is also copied by its synchronous calls. Here is none.
class LandingMemory {
 public:
  // kUnavailable, kExhausted, with a sentence.
  static Result<LandingMemory> make(std::shared_ptr<const GpuContext> context, uint64_t bytes,
                                    LandingWay way);
  LandingMemory(LandingMemory&& other) noexcept;
  LandingMemory& operator=(LandingMemory&&) = delete;
  ~LandingMemory();

  MemoryRange range() const;
  // Closes the dma-buf: a registration keeps the memory by itself.
  void registered() { dma_buf_.reset(); }

 private:
  LandingMemory(std::shared_ptr<const GpuContext> context, uint64_t bytes)
      : context_(std::move(context)), bytes_(bytes) {}
  Result<void> allocate(uint64_t page);
  Result<void> export_dma_buf();

  std::shared_ptr<const GpuContext> context_;
  uint64_t bytes_;
  uint64_t allocated_ = 0;  // 0: nothing
  uint64_t address_ = 0;    // of a whole page of the GPU's and the host's, as the calls want it
  UniqueFd dma_buf_;
};

}  // namespace farpage::cuda
