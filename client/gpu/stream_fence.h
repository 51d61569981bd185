#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "client/runner/fence.h"
#include "transport/cuda/memory/pinned_memory.h"
#include "transport/cuda/page_kernels.h"

namespace farpage {

// A fence that streams of a GPU wait at, and whose bits its kernels read. It may outlive the client
// whose fetches it is for. It goes once no stream waits at it and no work, nor any graph, will read
// it any more. Any thread.
class StreamFence {
 public:
  static Result<std::shared_ptr<StreamFence>> make(
      const std::shared_ptr<const cuda::GpuContext>& context, uint32_t most_pages);
  ~StreamFence();
  StreamFence(const StreamFence&) = delete;
  StreamFence& operator=(const StreamFence&) = delete;

  Fence& fence() { return fence_; }
  // Of farpage_fence_words, for the device.
  uint64_t address() const { return memory_.address(); }

  // Work that is put on the stream from now on waits until every fetch that was begun with the
  // fence has its verdicts. Nothing blocks. While the stream is captured, each replay of the graph
  // waits for the fetches that were begun before that replay comes so far; without this build's
  // kernels that is kInvalid. `stream`: a CUstream of this GPU's primary context; null: its default
  // one.
  Result<void> wait_on(cuda::Stream stream);

 private:
  StreamFence(std::shared_ptr<const cuda::GpuContext> context, cuda::PinnedMemory memory,
              uint32_t most_pages);
  void load_kernels();

  const std::shared_ptr<const cuda::GpuContext> context_;
  const cuda::PinnedMemory memory_;
  Fence fence_;
  std::optional<cuda::PageKernels> kernels_;
  std::string why_no_kernels_;
};

}  // namespace farpage
