#include "transport/cuda/copies/kernel_queue.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace farpage::cuda {

Result<std::unique_ptr<KernelQueue>> KernelQueue::make(
    const std::shared_ptr<const GpuContext>& context, const PageKernels& kernels,
    uint64_t pinned_bytes) {
  auto memory = PinnedMemory::make(context, pinned_bytes);
  if (!memory) {
    PageKernels(kernels).unload();
    return tl::unexpected(memory.error());
  }
  auto made = std::unique_ptr<KernelQueue>(new KernelQueue(context, kernels, std::move(*memory)));
  const Driver& driver = context->driver();
  const CurrentContext current(*context);
  int result = current.result();
  if (result == kSuccess) result = driver.make_stream(&made->stream_, kStreamNonBlocking);
  if (result == kSuccess) result = driver.make_event(&made->copied_, kEventWithoutTiming);
  if (result == kSuccess) return made;
  return fail(Code::kUnavailable,
              driver_error(driver, result, "the driver gives no stream and event for kernels"));
}

KernelQueue::KernelQueue(std::shared_ptr<const GpuContext> context, const PageKernels& kernels,
                         PinnedMemory memory)
    : context_(std::move(context)), kernels_(kernels), memory_(std::move(memory)) {}

KernelQueue::~KernelQueue() {
  const Driver& driver = context_->driver();
  const CurrentContext current(*context_);
  if (copied_ != nullptr) driver.destroy_event(copied_);
  if (stream_ != nullptr) driver.destroy_stream(stream_);
  kernels_.unload();
}

// A wait is for what the event stood for at the call, so the next batch may record it anew.
int KernelQueue::follow(Stream copies) {
  const Driver& driver = context_->driver();
  const int result = driver.record_event(copied_, copies);
  return result == kSuccess ? driver.stream_wait_event(stream_, copied_, 0) : result;
}

// An error that says nothing of the context says nothing of what is under way, either.
int KernelQueue::wait_for(const Driver& driver, Stream stream) {
  const uint64_t until_ns = boottime_clock().now_ns() + kDoubtNs;
  int result = driver.wait_for_stream(stream);
  while (result != kSuccess && !ends_context(result) && boottime_clock().now_ns() < until_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    result = driver.wait_for_stream(stream);
  }
  return result;
}

}  // namespace farpage::cuda
