#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "tier/client.h"
#include "transport/cuda/copies/page_gather.h"
#include "transport/cuda/copies/page_scatter.h"
#include "transport/cuda/memory/paged_memory.h"
#include "transport/memory.h"

namespace farpage {

// Blocks of an engine's paged memory, as a region whose pages are whole blocks. Slices of it name
// it by their local_key.
class PagedRegion : public Region::Backing {
 public:
  static constexpr uint32_t kMostPages = 64;      // in a portion
  static constexpr uint64_t kMostCopies = 4'096;  // of pieces, for a portion

  explicit PagedRegion(std::unique_ptr<cuda::PagedMemory> memory) : memory_(std::move(memory)) {}

  // A kernel takes pages to their blocks from now on, until the other call. Errors as of
  // PageScatter::make().
  Result<void> scatter_by_kernel();
  void scatter_by_copies() { is_scattered_ = false; }
  // The same for pages that are put. Errors as of PageGather::make().
  Result<void> gather_by_kernel();
  void gather_by_copies() { is_gathered_ = false; }

  const cuda::PagedMemory& memory() const { return *memory_; }
  // A portion has no more pages than these, one at least: so long is a slot, and so many copies may
  // one turn of the GPU's thread start.
  uint64_t portion_bytes() const;
  uint64_t portion_pages() const;
  // Null: pages are copied to their blocks piece by piece, or from there.
  cuda::PageScatter* scatter() const { return is_scattered_ ? scatter_.get() : nullptr; }
  cuda::PageGather* gather() const { return is_gathered_ ? gather_.get() : nullptr; }

 private:
  std::unique_ptr<cuda::PagedMemory> memory_;
  // Their slots are the GPU's thread's, and so is whether they are used.
  std::unique_ptr<cuda::PageScatter> scatter_;
  std::unique_ptr<cuda::PageGather> gather_;
  bool is_scattered_ = false;
  bool is_gathered_ = false;
};

// That these bytes are of; null: none. Valid while its region is.
inline PagedRegion* paged_region(const Slice& slice) {
  if (slice.place.is_host()) return nullptr;
  return reinterpret_cast<PagedRegion*>(slice.local_key);
}

}  // namespace farpage
