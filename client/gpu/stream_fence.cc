#include "client/gpu/stream_fence.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace farpage {

Result<std::shared_ptr<StreamFence>> StreamFence::make(
    const std::shared_ptr<const cuda::GpuContext>& context, uint32_t most_pages) {
  if (most_pages == 0 || most_pages > Fence::kMostPages) {
    return fail(Code::kInvalid, fmt::format("a fence for {} pages: give it 1 to {}", most_pages,
                                            Fence::kMostPages));
  }
  auto memory = cuda::PinnedMemory::make(context, Fence::bytes_for(most_pages));
  if (!memory) return tl::unexpected(memory.error());
  auto made =
      std::shared_ptr<StreamFence>(new StreamFence(context, std::move(*memory), most_pages));
  made->load_kernels();
  return made;
}

StreamFence::StreamFence(std::shared_ptr<const cuda::GpuContext> context, cuda::PinnedMemory memory,
                         uint32_t most_pages)
    : context_(std::move(context)),
      memory_(std::move(memory)),
      fence_({memory_.data(), memory_.bytes()}, most_pages) {}

void StreamFence::load_kernels() {
  const cuda::CurrentContext current(*context_);
  if (current.result() != cuda::kSuccess) {
    why_no_kernels_ = driver_error(context_->driver(), current.result(), "cuCtxPushCurrent");
    return;
  }
  const auto kernels = cuda::PageKernels::load(context_->driver(), context_->device());
  if (kernels) {
    kernels_ = *kernels;
  } else {
    why_no_kernels_ = kernels.error().message;
  }
}

StreamFence::~StreamFence() {
  const cuda::CurrentContext current(*context_);
  if (kernels_) kernels_->unload();
}

Result<void> StreamFence::wait_on(cuda::Stream stream) {
  const cuda::Driver& driver = context_->driver();
  const cuda::CurrentContext current(*context_);
  int result = current.result();  // no other context's default stream
  if (result == cuda::kSuccess && kernels_) return kernels_->wait_at_fence(stream, address());
  int capture = 0;
  if (result == cuda::kSuccess) result = driver.capture_state(stream, &capture);
  if (result == cuda::kSuccess && capture != 0) {
    return fail(Code::kInvalid,
                "a captured stream can wait at a fence by a kernel alone, and there is none (" +
                    why_no_kernels_ + "): put the wait outside of the graph");
  }
  if (result == cuda::kSuccess) {
    result = driver.stream_wait_value(stream, address() + offsetof(farpage_fence_words, decided),
                                      fence_.begun(), cuda::kWaitGreaterOrEqual);
  }
  if (result == cuda::kSuccess) return {};
  return fail(Code::kUnavailable, driver_error(driver, result,
                                               fmt::format("a stream of cuda:{} cannot wait at a "
                                                           "fence",
                                                           context_->device())));
}

}  // namespace farpage
