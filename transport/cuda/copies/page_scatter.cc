#include "transport/cuda/copies/page_scatter.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "integrity/page_check.h"
#include "integrity/page_header.h"
#include "transport/cuda/kernels/header_check.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kVector = 16;
constexpr uint64_t kAlignment = 256;  // of slots, as that of the driver's memory
// Kernels take pages with their headers. The lane has checked those; these are as good, and of one
// incarnation.
constexpr uint64_t kIncarnation = 1;

}  // namespace

bool PageScatter::can_take(const PagedMemory& memory) {
  const auto is_aligned = [](uint64_t bytes) { return bytes % kVector == 0; };
  return std::ranges::all_of(memory.pieces(), is_aligned) && is_aligned(memory.piece_bytes()) &&
         is_aligned(memory.block_stride()) &&
         memory.block_bytes() <= std::numeric_limits<int32_t>::max() &&
         memory.bytes() / memory.block_bytes() <= std::numeric_limits<uint32_t>::max();
}

Result<std::unique_ptr<PageScatter>> PageScatter::make(const PagedMemory& memory,
                                                       uint64_t slot_bytes, uint32_t most_pages) {
  auto made = std::unique_ptr<PageScatter>(new PageScatter(memory, slot_bytes, most_pages));
  if (auto opened = made->open(); !opened) return tl::unexpected(opened.error());
  return made;
}

PageScatter::PageScatter(const PagedMemory& memory, uint64_t slot_bytes, uint32_t most_pages)
    : memory_(memory),
      slot_bytes_(round_up(slot_bytes, kAlignment)),
      most_pages_(most_pages),
      counts_(kSlots) {
  for (uint32_t slot = kSlots; slot-- > 0;) free_.push_back(slot);
}

Result<void> PageScatter::open() {
  const GpuContext& context = *memory_.context();
  const Driver& driver = context.driver();
  const CurrentContext current(context);
  const auto kernels = PageKernels::load(driver, context.device());
  if (!kernels) return tl::unexpected(kernels.error());
  const uint64_t pieces_bytes = memory_.pieces().size_bytes();
  auto queue = KernelQueue::make(memory_.context(), *kernels,
                                 std::max(pinned(kSlots).headers, 2 * pieces_bytes));
  if (!queue) return tl::unexpected(queue.error());
  queue_ = std::move(*queue);
  if (const int result = driver.allocate(&device_, kSlots * slot_bytes_ + pieces_bytes);
      result != kSuccess) {
    device_ = 0;
    return fail(Code::kUnavailable, driver_error(driver, result, "no memory to stage pages in"));
  }
  return copy_pieces();
}

// Copies them to the device, and back to compare: with a wrong one, pages would go to other memory,
// and nothing would see it.
Result<void> PageScatter::copy_pieces() {
  const Driver& driver = memory_.context()->driver();
  const auto pieces = memory_.pieces();
  const uint64_t bytes = pieces.size_bytes();
  std::byte* const sent = queue_->data();
  std::byte* const returned = sent + bytes;
  std::memcpy(sent, pieces.data(), bytes);
  const Stream stream = queue_->stream();
  int result = driver.copy_to_device(address(kSlots), sent, bytes, stream);
  if (result == kSuccess) result = driver.copy_to_host(returned, address(kSlots), bytes, stream);
  if (const int waited = queue_->wait(); result == kSuccess) result = waited;
  if (result != kSuccess) {
    return fail(Code::kUnavailable,
                driver_error(driver, result, "the pieces' addresses were not copied"));
  }
  if (std::memcmp(sent, returned, bytes) == 0) return {};
  return fail(Code::kUnavailable, "the pieces' addresses were spoiled by their copy");
}

PageScatter::~PageScatter() {
  if (device_ == 0) return;
  const GpuContext& context = *memory_.context();
  const CurrentContext current(context);
  context.driver().free(device_);
}

PageScatter::Pinned PageScatter::pinned(uint32_t slot) const {
  static_assert(sizeof(PageHeader) % alignof(PageItem) == 0);
  const uint64_t of_headers = most_pages_ * sizeof(PageHeader);
  const uint64_t of_items = most_pages_ * sizeof(PageItem);
  const uint64_t of_all = round_up(of_headers + of_items + most_pages_, alignof(PageHeader));
  const uint64_t headers = slot * of_all;
  return {headers, headers + of_headers, headers + of_headers + of_items};
}

uint32_t PageScatter::take_slot() {
  const uint32_t slot = free_.back();
  free_.pop_back();
  counts_[slot] = 0;
  return slot;
}

void PageScatter::add(uint32_t slot, const StagedPage& page) {
  FARPAGE_CHECK(counts_[slot] < most_pages_);
  const uint32_t at = counts_[slot]++;
  const Pinned places = pinned(slot);
  const auto bytes = static_cast<uint32_t>(memory_.block_bytes());
  PageHeader header = make_page_header(page.key, page.version, kIncarnation, bytes, page.crc);
  header.live = live_token(page.key, page.version, kIncarnation);
  const uint64_t header_at = places.headers + at * sizeof header;
  std::memcpy(queue_->data() + header_at, &header, sizeof header);
  PageItem item;
  item.payload = page.address;
  item.header = queue_->address() + header_at;
  item.key_low = page.key.low;
  item.key_high = page.key.high;
  item.version = page.version;
  item.incarnation = kIncarnation;
  item.payload_bytes = bytes;
  item.block = static_cast<uint32_t>(page.block);
  item.check = item_check(item);
  std::memcpy(queue_->data() + places.items + at * sizeof item, &item, sizeof item);
  // If the kernel says nothing about it, the page is not written.
  queue_->data()[places.findings + at] = static_cast<std::byte>(PageFinding::kCorrupt);
}

Result<void> PageScatter::start(uint32_t slot) {
  const Pinned places = pinned(slot);
  PageBatch batch;
  batch.items = queue_->address() + places.items;
  batch.count = counts_[slot];
  batch.longest_bytes = static_cast<uint32_t>(memory_.block_bytes());
  batch.layout.bases = reinterpret_cast<const uint64_t*>(address(kSlots));
  batch.layout.block_stride = memory_.block_stride();
  batch.layout.pieces = static_cast<uint32_t>(memory_.pieces().size());
  batch.layout.piece_bytes = static_cast<uint32_t>(memory_.piece_bytes());
  batch.out.findings = reinterpret_cast<uint8_t*>(queue_->address() + places.findings);
  return queue_->kernels().check_and_scatter(queue_->stream(), batch);
}

bool PageScatter::is_written(uint32_t slot, uint32_t page) const {
  const std::byte finding = queue_->data()[pinned(slot).findings + page];
  return finding == static_cast<std::byte>(PageFinding::kGood);
}

}  // namespace farpage::cuda
