#include "transport/cuda/copy_checks.h"

#include <utility>

#include "base/check.h"

namespace farpage::cuda {

Result<std::unique_ptr<CopyChecks>> CopyChecks::make(
    const std::shared_ptr<const GpuContext>& context, const PageKernels& kernels, uint32_t batches,
    uint32_t most_pages) {
  const uint64_t pages = uint64_t{batches} * most_pages;
  auto memory = PinnedMemory::make(context, pages * (sizeof(PageItem) + sizeof(uint32_t)));
  if (!memory) {
    PageKernels(kernels).unload();
    return tl::unexpected(memory.error());
  }
  auto made = std::unique_ptr<CopyChecks>(
      new CopyChecks(context, kernels, std::move(*memory), batches, most_pages));
  const Driver& driver = context->driver();
  const CurrentContext current(*context);
  int result = current.result();
  if (result == kSuccess) {
    result = driver.host_address(&made->address_, made->memory_.data(), 0);
  }
  if (result == kSuccess) result = driver.make_stream(&made->stream_, kStreamNonBlocking);
  if (result == kSuccess) result = driver.make_event(&made->copied_, kEventWithoutTiming);
  if (result == kSuccess) return made;
  return fail(Code::kUnavailable,
              driver_error(driver, result, "the driver gives no stream and event for checks"));
}

CopyChecks::CopyChecks(std::shared_ptr<const GpuContext> context, const PageKernels& kernels,
                       PinnedMemory memory, uint32_t batches, uint32_t most_pages)
    : context_(std::move(context)),
      kernels_(kernels),
      memory_(std::move(memory)),
      crcs_offset_(uint64_t{batches} * most_pages * sizeof(PageItem)),
      most_pages_(most_pages) {}

CopyChecks::~CopyChecks() {
  const Driver& driver = context_->driver();
  const CurrentContext current(*context_);
  if (copied_ != nullptr) driver.destroy_event(copied_);
  if (stream_ != nullptr) driver.destroy_stream(stream_);
  kernels_.unload();
}

void CopyChecks::choose(uint32_t batch, std::span<const CopiedPage> pages) {
  FARPAGE_CHECK(pages.size() <= most_pages_);
  PageItem* item = items() + first_of(batch);
  for (const CopiedPage& page : pages) {
    item->payload = page.device;
    item->payload_bytes = page.bytes;
    ++item;
  }
}

// A wait is for what the event stood for at the call, so the next batch may record it anew.
int CopyChecks::follow(Stream copies) {
  const Driver& driver = context_->driver();
  const int result = driver.record_event(copied_, copies);
  return result == kSuccess ? driver.stream_wait_event(stream_, copied_, 0) : result;
}

Result<void> CopyChecks::start(uint32_t batch, uint32_t pages) {
  const uint64_t first = first_of(batch);
  PageBatch given;
  given.items = address_ + first * sizeof(PageItem);
  given.count = pages;
  given.out.crcs = reinterpret_cast<uint32_t*>(address_ + crcs_offset_ + first * sizeof(uint32_t));
  return kernels_.crcs(stream_, given);
}

}  // namespace farpage::cuda
