#include "client/gpu/paged_region.h"

#include <algorithm>

#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kPortionBytes = 256 * kKiB;  // one copy of so much is as fast as a longer one
constexpr uint64_t kAlignment = 64;             // of pages in a portion

}  // namespace

uint64_t PagedRegion::portion_bytes() const {
  return std::max(kPortionBytes, round_up(memory_->block_bytes(), kAlignment));
}

uint64_t PagedRegion::portion_pages() const {
  return std::clamp<uint64_t>(kMostCopies / memory_->runs().size(), 1, kMostPages);
}

Result<void> PagedRegion::scatter_by_kernel() {
  auto made = cuda::PageScatter::make(*memory_, portion_bytes(), kMostPages);
  if (!made) return tl::unexpected(made.error());
  scatter_ = std::move(*made);
  is_scattered_ = true;
  return {};
}

Result<void> PagedRegion::gather_by_kernel() {
  auto made = cuda::PageGather::make(*memory_, portion_bytes(), kMostPages);
  if (!made) return tl::unexpected(made.error());
  gather_ = std::move(*made);
  is_gathered_ = true;
  return {};
}

}  // namespace farpage
