#include "pagetable/geometry.h"

#include <fmt/format.h>

#include "pagetable/index_layout.h"

namespace farpage {
namespace {

constexpr uint64_t kPagesPerBucket = 6;
static_assert(kPagesPerBucket < kBucketEntries);

}  // namespace

Result<Geometry> make_geometry(uint64_t page_bytes, uint64_t pool_bytes, SlotLayout layout) {
  Geometry geometry;
  geometry.page_bytes = page_bytes;
  geometry.layout = layout;
  if (page_bytes == 0 || page_bytes > kMaxPageBytes) {
    return fail(Code::kInvalid, fmt::format("page_bytes is {}: choose 1 to {}", page_bytes,
                                            format_bytes(kMaxPageBytes)));
  }
  geometry.slots = pool_bytes / geometry.slot_bytes();
  if (geometry.slots == 0) {
    return fail(
        Code::kInvalid,
        fmt::format("pool_bytes is {}, less than one slot of {} bytes (a page of {} and its "
                    "header): choose a larger pool",
                    pool_bytes, geometry.slot_bytes(), format_bytes(page_bytes)));
  }
  geometry.buckets = geometry.slots / kPagesPerBucket + 2;
  if (auto valid = validate(geometry); !valid) return tl::unexpected(valid.error());
  return geometry;
}

Result<void> validate(const Geometry& geometry) {
  if (geometry.layout != SlotLayout::kTogether && geometry.layout != SlotLayout::kApart) {
    return fail(Code::kInvalid,
                fmt::format("layout {} of slots is unknown here: run the same version of farpage "
                            "on both ends",
                            static_cast<unsigned>(geometry.layout)));
  }
  if (geometry.page_bytes == 0 || geometry.page_bytes > kMaxPageBytes) {
    return fail(Code::kInvalid, fmt::format("a page of {} bytes is out of range (1 to {})",
                                            geometry.page_bytes, kMaxPageBytes));
  }
  if (geometry.slots == 0 || geometry.slots > kMaxSlots) {
    return fail(Code::kInvalid,
                fmt::format("{} slots are out of range (1 to {}): choose a smaller pool or larger "
                            "pages",
                            geometry.slots, kMaxSlots));
  }
  if (geometry.buckets < 2 || geometry.buckets > 2 * kMaxSlots) {
    return fail(Code::kInvalid, fmt::format("{} index buckets are out of range", geometry.buckets));
  }
  return {};
}

}  // namespace farpage
