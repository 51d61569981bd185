#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/cuda/gpu_context.h"
#include "transport/cuda/memory/pinned_memory.h"
#include "transport/cuda/page_kernels.h"

namespace farpage::cuda {

// Kernels that follow copies, on a stream of their own, so that the next copies go on meanwhile;
// and pinned memory for what they read and write.
//
// One thread, on which the context is current; made and destroyed on any. No kernel is under way
// when it goes.
class KernelQueue {
 public:
  // `kernels`: loaded into this context; they are unloaded with this, or by a failure.
  static Result<std::unique_ptr<KernelQueue>> make(const std::shared_ptr<const GpuContext>& context,
                                                   const PageKernels& kernels,
                                                   uint64_t pinned_bytes);
  ~KernelQueue();
  KernelQueue(const KernelQueue&) = delete;
  KernelQueue& operator=(const KernelQueue&) = delete;

  const PageKernels& kernels() const { return kernels_; }
  Stream stream() const { return stream_; }
  // What comes on stream() from now on waits for what is on `copies` now; with a CUresult.
  int follow(Stream copies);
  // Blocks until nothing is on stream(), or the context has ended; with a CUresult.
  int wait() const { return wait_for(context_->driver(), stream_); }
  // The same, of another stream of the current context.
  static int wait_for(const Driver& driver, Stream stream);

  std::byte* data() const { return memory_.data(); }
  uint64_t address() const { return memory_.address(); }  // the device's, of data()

 private:
  KernelQueue(std::shared_ptr<const GpuContext> context, const PageKernels& kernels,
              PinnedMemory memory);

  const std::shared_ptr<const GpuContext> context_;
  PageKernels kernels_;
  PinnedMemory memory_;
  Stream stream_ = nullptr;
  Event copied_ = nullptr;  // as it was recorded last
};

}  // namespace farpage::cuda
