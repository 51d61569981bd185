#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/memory/mapping.h"
#include "base/status.h"
#include "transport/fabric.h"

namespace farpage {

class PagePool;

// One page of a pool, given back by the destructor. Must not outlive its pool.
class PageLease {
 public:
  PageLease(PageLease&& other) noexcept;
  PageLease& operator=(PageLease&& other) noexcept;
  ~PageLease();

  const Slice& slice() const { return slice_; }
  uint32_t index() const { return index_; }  // of its place

 private:
  friend class PagePool;
  PageLease(PagePool* pool, uint32_t index, const Slice& slice)
      : pool_(pool), index_(index), slice_(slice) {}

  PagePool* pool_;
  uint32_t index_;
  Slice slice_;
};

// Landing places of one size in registered host memory, lent as leases or by number. One thread at
// a time. Move it only while no lease is out.
class PagePool {
 public:
  PagePool() = default;  // of no page
  static Result<PagePool> create(Fabric& fabric, uint64_t page_bytes, uint32_t pages);

  // Over memory that is registered already: places one after the other, as many as it has room for.
  static PagePool over(Region region, uint64_t page_bytes);

  PagePool(PagePool&&) = default;
  PagePool& operator=(PagePool&&) = default;

  // Nothing when every page is out.
  std::optional<PageLease> take();

  // The same by number, which the caller gives back when nothing may write there any more.
  std::optional<uint32_t> take_index();
  void give_back(uint32_t index) {
    FARPAGE_CHECK(free_.size() < pages_);
    free_.push_back(index);
  }
  // The page's first bytes.
  Slice slice(uint32_t index, uint64_t bytes) const;

  uint64_t page_bytes() const { return page_bytes_; }
  size_t pages() const { return pages_; }
  size_t free_pages() const { return free_.size(); }

 private:
  PagePool(Mapping memory, Region region, uint64_t page_bytes, uint32_t pages);

  Mapping memory_;
  Region region_;  // after memory_: its registration ends first
  uint64_t page_bytes_ = 0;
  uint32_t pages_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace farpage
