#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

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

  // Gives the page back only once `ended` returns true: an operation that could not be ended may
  // still write to it (I4). `ended` is asked when the pool is next asked for a page.
  void quarantine(std::function<bool()> ended) &&;

 private:
  friend class PagePool;
  PageLease(PagePool* pool, uint32_t index, const Slice& slice)
      : pool_(pool), index_(index), slice_(slice) {}

  PagePool* pool_;
  uint32_t index_;
  Slice slice_;
};

// Landing places of one size in registered host memory. One thread at a time. Move it only while no
// lease is out.
class PagePool {
 public:
  static Result<PagePool> create(Fabric& fabric, uint64_t page_bytes, uint32_t pages);

  // Over memory that is registered already: places one after the other, as many as it has room for.
  static PagePool over(Region region, uint64_t page_bytes);

  PagePool(PagePool&&) = default;
  PagePool& operator=(PagePool&&) = default;

  // Nothing when every page is out or in quarantine.
  std::optional<PageLease> take();

  // Takes back what has ended its quarantine; take() does so too.
  void collect();

  size_t pages() const { return pages_; }
  size_t free_pages() const { return free_.size(); }
  size_t quarantined_pages() const { return quarantined_.size(); }

 private:
  friend class PageLease;
  PagePool(Mapping memory, Region region, uint64_t page_bytes, uint32_t pages);

  struct Quarantined {
    uint32_t index;
    std::function<bool()> ended;
  };

  Mapping memory_;
  Region region_;  // after memory_: its registration ends first
  uint64_t page_bytes_ = 0;
  uint32_t pages_ = 0;
  std::vector<uint32_t> free_;
  std::vector<Quarantined> quarantined_;
};

}  // namespace farpage
