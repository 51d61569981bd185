#include "pagetable/geometry.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pagetable/index_layout.h"

namespace farpage {
namespace {

TEST(Geometry, FitsAsManySlotsAsThePoolHolds) {
  const uint64_t slot = 64 * kKiB + sizeof(PageHeader);
  const Geometry geometry = make_geometry(64 * kKiB, 10 * slot + slot - 1).value();
  EXPECT_EQ(geometry.slots, 10u);
  EXPECT_EQ(geometry.slot_bytes(), slot);
  EXPECT_EQ(geometry.header_offset(9), 9 * slot);
  EXPECT_EQ(geometry.pool_bytes(), 10 * slot);
}

TEST(Geometry, SlotsStayOnCacheLines) {
  for (const uint64_t page_bytes : {1u, 63u, 64u, 65u, 4095u}) {
    const Geometry geometry = make_geometry(page_bytes, kMiB).value();
    EXPECT_EQ(geometry.slot_bytes() % 64, 0u);
    EXPECT_GE(geometry.slot_bytes(), sizeof(PageHeader) + page_bytes);
  }
}

// As many slots in as much memory, whether their headers lie apart or not.
TEST(Geometry, HeadersAndPayloadsMayLieApart) {
  const uint64_t slot = 64 + 1024;
  const Geometry together = make_geometry(1000, 10 * slot).value();
  const Geometry apart = make_geometry(1000, 10 * slot, SlotLayout::kApart).value();
  EXPECT_EQ(together.header_offset(3), 3 * slot);
  EXPECT_EQ(together.payload_offset(3), 3 * slot + 64);
  EXPECT_EQ(together.header_stride(), slot);
  EXPECT_EQ(together.headers_bytes(), 0u);
  EXPECT_EQ(together.payloads_bytes(), 10 * slot);
  EXPECT_EQ(apart.slots, together.slots);
  EXPECT_EQ(apart.pool_bytes(), together.pool_bytes());
  EXPECT_EQ(apart.slot_bytes(), slot);
  EXPECT_EQ(apart.header_offset(3), 3 * 64u);
  EXPECT_EQ(apart.header_stride(), 64u);
  EXPECT_EQ(apart.payload_offset(3), 3 * 1024u);
  EXPECT_EQ(apart.headers_bytes(), 10 * 64u);
  EXPECT_EQ(apart.payloads_bytes(), 10 * 1024u);
  EXPECT_NE(apart, together);
}

TEST(Geometry, LayoutThatNobodyKnowsIsRefused) {
  Geometry geometry = make_geometry(1000, kMiB).value();
  for (const int layout : {2, 255}) {
    geometry.layout = static_cast<SlotLayout>(layout);
    const auto refused = validate(geometry);
    ASSERT_FALSE(refused.has_value()) << layout;
    EXPECT_NE(refused.error().message.find("same version"), std::string::npos);
  }
}

TEST(Geometry, OneSlotIsThePoolsLeast) {
  const uint64_t slot = 4 * kKiB + sizeof(PageHeader);
  EXPECT_EQ(make_geometry(4 * kKiB, slot).value().slots, 1u);
  const auto less = make_geometry(4 * kKiB, slot - 1);
  ASSERT_FALSE(less.has_value());
  EXPECT_EQ(less.error().code, Code::kInvalid);
  EXPECT_NE(less.error().message.find("pool_bytes"), std::string::npos) << less.error().message;
}

TEST(Geometry, PagesHaveALimit) {
  EXPECT_TRUE(make_geometry(kMaxPageBytes, kGiB).has_value());
  for (const uint64_t page_bytes : {uint64_t{0}, kMaxPageBytes + 1, UINT64_MAX}) {
    const auto refused = make_geometry(page_bytes, kGiB);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("page_bytes"), std::string::npos);
  }
}

TEST(Geometry, SlotsHaveALimit) {
  const uint64_t slot = sizeof(PageHeader) + 64;
  EXPECT_EQ(make_geometry(1, kMaxSlots * slot).value().slots, kMaxSlots);
  const auto refused = make_geometry(1, (kMaxSlots + 1) * slot);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("smaller pool"), std::string::npos);
  EXPECT_FALSE(make_geometry(1, UINT64_MAX).has_value());
}

TEST(Geometry, WhatAPeerSaysIsValidated) {
  const Geometry good = {4096, 100, 20};
  EXPECT_TRUE(validate(good).has_value());
  for (const Geometry& bad :
       {Geometry{0, 100, 20}, Geometry{kMaxPageBytes + 1, 100, 20}, Geometry{4096, 0, 20},
        Geometry{4096, kMaxSlots + 1, 20}, Geometry{4096, UINT64_MAX, 20}, Geometry{4096, 100, 0},
        Geometry{4096, 100, 1}, Geometry{4096, 100, 2 * kMaxSlots + 1},
        Geometry{UINT64_MAX, UINT64_MAX, UINT64_MAX}}) {
    EXPECT_FALSE(validate(bad).has_value())
        << bad.page_bytes << ' ' << bad.slots << ' ' << bad.buckets;
  }
}

// Every geometry that passes validate() gives offsets that do not wrap.
RC_GTEST_PROP(GeometryProperty, NoOffsetOverflows, ()) {
  const auto page = *rc::gen::oneOf(rc::gen::inRange<uint64_t>(1, kMaxPageBytes + 1),
                                    rc::gen::just(kMaxPageBytes));
  const auto slots =
      *rc::gen::oneOf(rc::gen::inRange<uint64_t>(1, kMaxSlots + 1), rc::gen::just(kMaxSlots));
  const auto buckets = *rc::gen::inRange<uint64_t>(2, 2 * kMaxSlots + 1);
  const Geometry geometry = {page, slots, buckets};
  RC_ASSERT(validate(geometry).has_value());
  RC_ASSERT(geometry.header_offset(slots - 1) <= UINT64_MAX - geometry.slot_bytes());
  RC_ASSERT(geometry.pool_bytes() / geometry.slot_bytes() == slots);
  RC_ASSERT(geometry.index_bytes() / sizeof(Bucket) == buckets);
}

RC_GTEST_PROP(GeometryProperty, IndexHasRoomForEverySlotAndCostsLittle, ()) {
  const uint64_t page = *rc::gen::inRange<uint64_t>(1, 256 * kKiB);
  const uint64_t pool = *rc::gen::inRange<uint64_t>(kMiB, 64 * kGiB);
  const auto geometry = make_geometry(page, pool);
  RC_ASSERT(geometry.has_value());
  RC_ASSERT(geometry->pool_bytes() <= pool);
  RC_ASSERT(pool - geometry->pool_bytes() < geometry->slot_bytes());
  RC_ASSERT(geometry->buckets * kBucketEntries * 3 >= geometry->slots * 4);
  if (geometry->slots > 100) RC_ASSERT(geometry->index_bytes() <= geometry->slots * 16);
}

}  // namespace
}  // namespace farpage
