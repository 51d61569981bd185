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
  if (pool_) pool_->free_.push_back(index_);
}

void PageLease::quarantine(std::function<bool()> ended) && {
  FARPAGE_CHECK(pool_ != nullptr);
  std::exchange(pool_, nullptr)->quarantined_.push_back({index_, std::move(ended)});
}

Result<PagePool> PagePool::create(Fabric& fabric, uint64_t page_bytes, uint32_t pages) {
  if (page_bytes == 0 || pages == 0) {
    return fail(Code::kInvalid, "a page pool needs at least one page of at least one byte");
  }
  if (page_bytes > (uint64_t{1} << 48) / pages) {
    return fail(Code::kInvalid, "a page pool of " + std::to_string(pages) + " pages of " +
                                    format_bytes(page_bytes) + " is larger than any memory");
  }
  PagePool pool;
  pool.page_bytes_ = page_bytes;
  Result<Mapping> memory = Mapping::anonymous(round_up(page_bytes, kPageAlignment) * pages);
  if (!memory) return tl::make_unexpected(memory.error());
  pool.memory_ = std::move(*memory);
  Result<Region> region =
      fabric.register_local({.data = pool.memory_.data(), .bytes = pool.memory_.bytes()});
  if (!region) return tl::make_unexpected(region.error());
  pool.region_ = std::move(*region);
  pool.free_.reserve(pages);
  pool.quarantined_.reserve(pages);
  for (uint32_t index = pages; index > 0; --index) pool.free_.push_back(index - 1);
  return pool;
}

std::optional<PageLease> PagePool::take() {
  collect_quarantined();
  if (free_.empty()) return std::nullopt;
  const uint32_t index = free_.back();
  free_.pop_back();
  const uint64_t offset = index * round_up(page_bytes_, kPageAlignment);
  return PageLease(this, index, region_.slice(offset, page_bytes_));
}

void PagePool::collect_quarantined() {
  std::erase_if(quarantined_, [this](const Quarantined& page) {
    if (!page.ended()) return false;
    free_.push_back(page.index);
    return true;
  });
}

}  // namespace farpage
