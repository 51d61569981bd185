#include "transport/page_pool.h"

#include <utility>

#include "base/units.h"

namespace farpage {
namespace {

// Two pages never share a cache line.
constexpr uint64_t kPageAlignment = 64;

}  // namespace

PageLease::PageLease(PageLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_), slice_(other.slice_) {}

PageLease& PageLease::operator=(PageLease&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(index_, other.index_);
  std::swap(slice_, other.slice_);
  return *this;
}

PageLease::~PageLease() {
  if (pool_) pool_->give_back(index_);
}

Result<PagePool> PagePool::create(Fabric& fabric, uint64_t page_bytes, uint32_t pages) {
  if (page_bytes == 0 || pages == 0) {
    return fail(Code::kInvalid, "a page pool needs at least one page of at least one byte");
  }
  if (page_bytes > (uint64_t{1} << 48) / pages) {
    return fail(Code::kInvalid, "a page pool of " + std::to_string(pages) + " pages of " +
                                    format_bytes(page_bytes) + " is larger than any memory");
  }
  Result<Mapping> memory = Mapping::anonymous(round_up(page_bytes, kPageAlignment) * pages);
  if (!memory) return tl::make_unexpected(memory.error());
  Result<Region> region = fabric.register_local({.data = memory->data(), .bytes = memory->bytes()});
  if (!region) return tl::make_unexpected(region.error());
  return PagePool(std::move(*memory), std::move(*region), page_bytes, pages);
}

PagePool PagePool::over(Region region, uint64_t page_bytes) {
  const uint64_t pages = region.bytes() / round_up(page_bytes, kPageAlignment);
  return PagePool(Mapping(), std::move(region), page_bytes, static_cast<uint32_t>(pages));
}

PagePool::PagePool(Mapping memory, Region region, uint64_t page_bytes, uint32_t pages)
    : memory_(std::move(memory)),
      region_(std::move(region)),
      page_bytes_(page_bytes),
      pages_(pages) {
  free_.reserve(pages);
  for (uint32_t index = pages; index > 0; --index) free_.push_back(index - 1);
}

std::optional<PageLease> PagePool::take() {
  const std::optional<uint32_t> index = take_index();
  if (!index) return std::nullopt;
  return PageLease(this, *index, slice(*index, page_bytes_));
}

std::optional<uint32_t> PagePool::take_index() {
  if (free_.empty()) return std::nullopt;
  const uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

Slice PagePool::slice(uint32_t index, uint64_t bytes) const {
  return region_.slice(index * round_up(page_bytes_, kPageAlignment), bytes);
}

}  // namespace farpage
