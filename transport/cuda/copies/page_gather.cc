#include "transport/cuda/copies/page_gather.h"

namespace farpage::cuda {

Result<std::unique_ptr<PageGather>> PageGather::make(const PagedMemory& memory, uint64_t slot_bytes,
                                                     uint32_t most_pages) {
  auto slots = PagedSlots::make(memory, slot_bytes, most_pages);
  if (!slots) return tl::unexpected(slots.error());
  auto made = std::unique_ptr<PageGather>(new PageGather(memory.context(), std::move(*slots)));
  if (auto opened = made->open(); !opened) return tl::unexpected(opened.error());
  return made;
}

Result<void> PageGather::open() {
  const Driver& driver = context_->driver();
  const CurrentContext current(*context_);
  int result = current.result();
  for (Stream& stream : streams_) {
    if (result == kSuccess) result = driver.make_stream(&stream, kStreamNonBlocking);
  }
  if (result != kSuccess) {
    return fail(Code::kUnavailable,
                driver_error(driver, result, "the driver gives no streams for kernels"));
  }
  KernelQueue& queue = slots_->queue();
  return slots_->try_kernel([&](const PageBatch& batch) -> Result<void> {
    const int started = queue.kernels().gather(queue.stream(), batch);
    if (started == kSuccess) return {};
    return fail(Code::kUnavailable, driver_error(driver, started, "farpage_gather_pages"));
  });
}

// A launch that was refused may have left it open whether there is a kernel.
PageGather::~PageGather() {
  const Driver& driver = context_->driver();
  const CurrentContext current(*context_);
  for (const Stream stream : streams_) {
    if (stream == nullptr) continue;
    (void)KernelQueue::wait_for(driver, stream);
    driver.destroy_stream(stream);
  }
}

void PageGather::add(uint32_t slot, uint64_t block, uint64_t offset) {
  PageItem item;
  item.payload = address(slot) + offset;
  item.block = static_cast<uint32_t>(block);
  slots_->add(slot, item);
}

int PageGather::start(uint32_t slot) {
  return slots_->queue().kernels().gather(stream(slot), slots_->batch(slot));
}

bool PageGather::are_there(uint32_t slot) const {
  for (uint32_t page = 0; page < slots_->pages(slot); ++page) {
    if (!slots_->is_good(slot, page)) return false;
  }
  return true;
}

}  // namespace farpage::cuda
