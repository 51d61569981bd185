#include "transport/cuda/copies/paged_slots.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "integrity/page_check.h"
#include "transport/cuda/kernels/header_check.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kVector = 16;
constexpr uint64_t kAlignment = 256;       // of slots, as that of the driver's memory
constexpr uint64_t kPinnedAlignment = 64;  // of what each has in pinned memory

bool can_take(const PagedMemory& memory) {
  const auto is_aligned = [](uint64_t bytes) { return bytes % kVector == 0; };
  return std::ranges::all_of(memory.pieces(), is_aligned) && is_aligned(memory.piece_bytes()) &&
         is_aligned(memory.block_stride()) &&
         memory.block_bytes() <= std::numeric_limits<int32_t>::max() &&
         memory.bytes() / memory.block_bytes() <= std::numeric_limits<uint32_t>::max();
}

}  // namespace

Result<std::unique_ptr<PagedSlots>> PagedSlots::make(const PagedMemory& memory, uint64_t slot_bytes,
                                                     uint32_t most_pages, uint64_t spare_bytes) {
  if (!can_take(memory)) {
    return fail(Code::kInvalid,
                "kernels move 16 bytes at a time, and addresses, strides and lengths of these "
                "pieces are not all multiples of it");
  }
  auto made = std::unique_ptr<PagedSlots>(new PagedSlots(memory, slot_bytes, most_pages));
  if (auto opened = made->open(spare_bytes); !opened) return tl::unexpected(opened.error());
  return made;
}

PagedSlots::PagedSlots(const PagedMemory& memory, uint64_t slot_bytes, uint32_t most_pages)
    : memory_(memory),
      slot_bytes_(round_up(slot_bytes, kAlignment)),
      most_pages_(most_pages),
      counts_(kCount) {
  for (uint32_t slot = kCount; slot-- > 0;) free_.push_back(slot);
}

Result<void> PagedSlots::open(uint64_t spare_bytes) {
  const GpuContext& context = *memory_.context();
  const Driver& driver = context.driver();
  const CurrentContext current(context);
  const auto kernels = PageKernels::load(driver, context.device());
  if (!kernels) return tl::unexpected(kernels.error());
  const uint64_t pieces_bytes = memory_.pieces().size_bytes();
  auto queue = KernelQueue::make(memory_.context(), *kernels,
                                 std::max(spare_at() + spare_bytes, 2 * pieces_bytes));
  if (!queue) return tl::unexpected(queue.error());
  queue_ = std::move(*queue);
  if (const int result = driver.allocate(&device_, kCount * slot_bytes_ + pieces_bytes);
      result != kSuccess) {
    device_ = 0;
    return fail(Code::kUnavailable, driver_error(driver, result, "no memory to stage pages in"));
  }
  return copy_pieces();
}

// Copies them to the device, and back to compare: with a wrong one, pages would go to other memory,
// or come from it, and nothing would see it.
Result<void> PagedSlots::copy_pieces() {
  const Driver& driver = memory_.context()->driver();
  const auto pieces = memory_.pieces();
  const uint64_t bytes = pieces.size_bytes();
  std::byte* const sent = queue_->data();
  std::byte* const returned = sent + bytes;
  std::memcpy(sent, pieces.data(), bytes);
  const Stream stream = queue_->stream();
  int result = driver.copy_to_device(address(kCount), sent, bytes, stream);
  if (result == kSuccess) result = driver.copy_to_host(returned, address(kCount), bytes, stream);
  if (const int waited = queue_->wait(); result == kSuccess) result = waited;
  if (result != kSuccess) {
    return fail(Code::kUnavailable,
                driver_error(driver, result, "the pieces' addresses were not copied"));
  }
  if (std::memcmp(sent, returned, bytes) == 0) return {};
  return fail(Code::kUnavailable, "the pieces' addresses were spoiled by their copy");
}

PagedSlots::~PagedSlots() {
  if (device_ == 0) return;
  const GpuContext& context = *memory_.context();
  const CurrentContext current(context);
  context.driver().free(device_);
}

uint64_t PagedSlots::items_at(uint32_t slot) const {
  return slot * round_up(most_pages_ * (sizeof(PageItem) + 1), kPinnedAlignment);
}

uint64_t PagedSlots::findings_at(uint32_t slot) const {
  return items_at(slot) + most_pages_ * sizeof(PageItem);
}

uint64_t PagedSlots::spare_at() const {
  return items_at(kCount);
}

uint32_t PagedSlots::take() {
  const uint32_t slot = free_.back();
  free_.pop_back();
  counts_[slot] = 0;
  return slot;
}

void PagedSlots::add(uint32_t slot, PageItem item) {
  FARPAGE_CHECK(counts_[slot] < most_pages_);
  const uint32_t at = counts_[slot]++;
  item.payload_bytes = static_cast<uint32_t>(memory_.block_bytes());
  item.check = item_check(item);
  std::memcpy(queue_->data() + items_at(slot) + at * sizeof item, &item, sizeof item);
  // If the kernel says nothing about it, the page is not good.
  queue_->data()[findings_at(slot) + at] = static_cast<std::byte>(PageFinding::kCorrupt);
}

PageBatch PagedSlots::batch(uint32_t slot) const {
  PageBatch batch;
  batch.items = queue_->address() + items_at(slot);
  batch.count = counts_[slot];
  batch.longest_bytes = static_cast<uint32_t>(memory_.block_bytes());
  batch.layout.bases = reinterpret_cast<const uint64_t*>(address(kCount));
  batch.layout.block_stride = memory_.block_stride();
  batch.layout.pieces = static_cast<uint32_t>(memory_.pieces().size());
  batch.layout.piece_bytes = static_cast<uint32_t>(memory_.piece_bytes());
  batch.out.findings = reinterpret_cast<uint8_t*>(queue_->address() + findings_at(slot));
  return batch;
}

Result<void> PagedSlots::try_kernel(const std::function<Result<void>(const PageBatch&)>& start) {
  const uint32_t slot = take();
  add(slot, {});
  auto& item = *reinterpret_cast<PageItem*>(queue_->data() + items_at(slot));
  item.check ^= 1;
  queue_->data()[findings_at(slot)] = static_cast<std::byte>(PageFinding::kGood);
  const auto started = start(batch(slot));
  const int waited = queue_->wait();
  const bool has_refused = !is_good(slot, 0);
  give_back(slot);
  if (!started) return tl::unexpected(started.error());
  if (waited == kSuccess && has_refused) return {};
  return fail(Code::kUnavailable,
              driver_error(memory_.context()->driver(), waited, "a kernel did not do its work"));
}

bool PagedSlots::is_good(uint32_t slot, uint32_t page) const {
  const std::byte finding = queue_->data()[findings_at(slot) + page];
  return finding == static_cast<std::byte>(PageFinding::kGood);
}

}  // namespace farpage::cuda
