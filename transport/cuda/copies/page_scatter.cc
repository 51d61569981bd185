#include "transport/cuda/copies/page_scatter.h"

#include <cstring>
#include <utility>

#include "integrity/page_header.h"

namespace farpage::cuda {
namespace {

// Kernels take pages with their headers. The lane has checked those; these are as good, and of one
// incarnation.
constexpr uint64_t kIncarnation = 1;

}  // namespace

Result<std::unique_ptr<PageScatter>> PageScatter::make(const PagedMemory& memory,
                                                       uint64_t slot_bytes, uint32_t most_pages) {
  const uint64_t headers_bytes = uint64_t{kSlots} * most_pages * sizeof(PageHeader);
  auto slots = PagedSlots::make(memory, slot_bytes, most_pages, headers_bytes);
  if (!slots) return tl::unexpected(slots.error());
  auto made = std::unique_ptr<PageScatter>(
      new PageScatter(std::move(*slots), memory.block_bytes(), most_pages));
  const CurrentContext current(*memory.context());
  auto tried =
      made->slots_->try_kernel([&](const PageBatch& batch) { return made->start_on(batch); });
  if (!tried) return tl::unexpected(tried.error());
  return made;
}

void PageScatter::add(uint32_t slot, const StagedPage& page) {
  const auto bytes = static_cast<uint32_t>(page_bytes_);
  PageHeader header = make_page_header(page.key, page.version, kIncarnation, bytes, page.crc);
  header.live = live_token(page.key, page.version, kIncarnation);
  const uint64_t header_at = (slot * most_pages_ + slots_->pages(slot)) * sizeof header;
  std::memcpy(slots_->spare() + header_at, &header, sizeof header);
  PageItem item;
  item.payload = page.address;
  item.header = slots_->spare_address() + header_at;
  item.key_low = page.key.low;
  item.key_high = page.key.high;
  item.version = page.version;
  item.incarnation = kIncarnation;
  item.block = static_cast<uint32_t>(page.block);
  slots_->add(slot, item);
}

Result<void> PageScatter::start(uint32_t slot) {
  return start_on(slots_->batch(slot));
}

Result<void> PageScatter::start_on(const PageBatch& batch) {
  return queue().kernels().check_and_scatter(queue().stream(), batch);
}

}  // namespace farpage::cuda
