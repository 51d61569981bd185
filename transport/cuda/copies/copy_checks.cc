#include "transport/cuda/copies/copy_checks.h"

#include <utility>

#include "base/check.h"

namespace farpage::cuda {

Result<std::unique_ptr<CopyChecks>> CopyChecks::make(
    const std::shared_ptr<const GpuContext>& context, const PageKernels& kernels, uint32_t batches,
    uint32_t most_pages) {
  const uint64_t pages = uint64_t{batches} * most_pages;
  auto queue = KernelQueue::make(context, kernels, pages * (sizeof(PageItem) + sizeof(uint32_t)));
  if (!queue) return tl::unexpected(queue.error());
  return std::unique_ptr<CopyChecks>(new CopyChecks(std::move(*queue), batches, most_pages));
}

CopyChecks::CopyChecks(std::unique_ptr<KernelQueue> queue, uint32_t batches, uint32_t most_pages)
    : queue_(std::move(queue)),
      crcs_offset_(uint64_t{batches} * most_pages * sizeof(PageItem)),
      most_pages_(most_pages) {}

void CopyChecks::choose(uint32_t batch, std::span<const CopiedPage> pages) {
  FARPAGE_CHECK(pages.size() <= most_pages_);
  PageItem* item = items() + first_of(batch);
  for (const CopiedPage& page : pages) {
    item->payload = page.device;
    item->payload_bytes = page.bytes;
    ++item;
  }
}

Result<void> CopyChecks::start(uint32_t batch, uint32_t pages) {
  const uint64_t first = first_of(batch);
  const uint64_t address = queue_->address();
  PageBatch given;
  given.items = address + first * sizeof(PageItem);
  given.count = pages;
  given.out.crcs = reinterpret_cast<uint32_t*>(address + crcs_offset_ + first * sizeof(uint32_t));
  return queue_->kernels().crcs(queue_->stream(), given);
}

}  // namespace farpage::cuda
