#include "pagetable/index_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "pagetable/geometry.h"

namespace farpage {
namespace {

constexpr uint64_t kMaxBuckets = 2 * kMaxSlots;

uint64_t any_number() {
  return *rc::gen::resize(100, rc::gen::arbitrary<uint64_t>());
}

PageKey any_key() {
  return {any_number(), any_number()};
}

RC_GTEST_PROP(IndexLayoutProperty, BucketsOfAKeyAreTwoAndInRange, ()) {
  const PageKey key = any_key();
  const uint64_t buckets = *rc::gen::oneOf(rc::gen::inRange<uint64_t>(2, 9),
                                           rc::gen::inRange<uint64_t>(2, kMaxBuckets + 1));
  const auto homes = key_buckets(key, buckets);
  RC_ASSERT(homes[0] < buckets);
  RC_ASSERT(homes[1] < buckets);
  RC_ASSERT(homes[0] != homes[1]);
}

TEST(IndexLayout, ExtremeKeysAreInRange) {
  for (const uint64_t buckets : {uint64_t{2}, uint64_t{3}, kMaxBuckets}) {
    for (const uint64_t low : {uint64_t{0}, UINT64_MAX}) {
      for (const uint64_t high : {uint64_t{0}, UINT64_MAX}) {
        const auto homes = key_buckets({low, high}, buckets);
        EXPECT_LT(std::max(homes[0], homes[1]), buckets);
        EXPECT_NE(homes[0], homes[1]);
      }
    }
  }
}

// Chi-squared over 100 buckets with 99 degrees of freedom: 99.99% of fair draws stay below 161.
TEST(IndexLayout, BucketsAreUniform) {
  constexpr uint64_t kBuckets = 100;
  constexpr int kKeys = 100'000;
  std::mt19937_64 random(1);
  std::array<std::array<double, kBuckets>, 2> counts = {};
  for (int i = 0; i < kKeys; ++i) {
    const auto homes = key_buckets({random(), random()}, kBuckets);
    ++counts[0][homes[0]];
    ++counts[1][homes[1]];
  }
  for (const auto& side : counts) {
    double squares = 0;
    const double expected = double{kKeys} / kBuckets;
    for (const double count : side) squares += (count - expected) * (count - expected) / expected;
    EXPECT_LT(squares, 161);
  }
}

RC_GTEST_PROP(IndexLayoutProperty, EntryKeepsItsSlotAndFingerprint, ()) {
  const PageKey key = any_key();
  const uint64_t slot = *rc::gen::inRange<uint64_t>(0, kMaxSlots);
  const IndexEntry entry = make_entry(key, slot);
  RC_ASSERT(entry != 0u);
  RC_ASSERT(entry_slot(entry) == slot);
  RC_ASSERT(entry_may_be(entry, key));
  PageKey other = key;
  other.high ^= uint64_t{1} << *rc::gen::inRange(0, 24);
  RC_ASSERT(!entry_may_be(entry, other));
}

TEST(IndexLayout, EmptyEntryIsNobodys) {
  EXPECT_FALSE(entry_may_be(0, {1, 0}));
}

// Torn, outdated or plain garbage buckets: what comes out is in range and carries the fingerprint.
RC_GTEST_PROP(IndexLayoutProperty, GarbageNeverLeadsOutOfThePool, ()) {
  const PageKey key = any_key();
  const uint64_t slots = *rc::gen::inRange<uint64_t>(1, 1000);
  std::array<Bucket, 2> buckets = {};
  size_t expected = 0;
  for (Bucket& bucket : buckets) {
    for (uint64_t& entry : bucket.entries) {
      // Half of them get the right fingerprint, with slots around the pool's end.
      entry = any_number();
      if (*rc::gen::arbitrary<bool>()) {
        const uint64_t low = *rc::gen::oneOf(rc::gen::inRange<uint64_t>(0, 2 * slots),
                                             rc::gen::just((uint64_t{1} << kEntrySlotBits) - 1));
        entry = key_fingerprint(key) << kEntrySlotBits | low;
      }
      const uint64_t stored = entry & ((uint64_t{1} << kEntrySlotBits) - 1);
      expected += entry != 0 && entry >> kEntrySlotBits == key_fingerprint(key) && stored >= 1 &&
                  stored <= slots;
    }
  }
  const Candidates found = find_candidates(buckets, key, slots);
  RC_ASSERT(found.count == std::min<size_t>(expected, found.entries.size()));
  for (uint32_t i = 0; i < found.count; ++i) {
    RC_ASSERT(entry_slot(found.entries[i]) < slots);
    RC_ASSERT(entry_may_be(found.entries[i], key));
  }
}

TEST(IndexLayout, EntryWithoutASlotIsPassedOver) {
  const PageKey key = {7, 0x123456};
  std::array<Bucket, 2> buckets = {};
  buckets[0].entries[0] = key_fingerprint(key) << kEntrySlotBits;
  EXPECT_EQ(find_candidates(buckets, key, kMaxSlots).count, 0u);
}

TEST(IndexLayout, LastSlotIsInRangeAndTheNextIsNot) {
  const PageKey key = {7, 0x123456};
  std::array<Bucket, 2> buckets = {};
  buckets[0].entries[7] = make_entry(key, 100);
  buckets[1].entries[0] = make_entry(key, 99);
  const Candidates found = find_candidates(buckets, key, 100);
  ASSERT_EQ(found.count, 1u);
  EXPECT_EQ(entry_slot(found.entries[0]), 99u);
}

TEST(IndexLayout, CollidingFingerprintsAreAllCandidatesUpToFour) {
  const PageKey key = {7, 0xABCDEF};
  const PageKey twin = {8, 0xFFFF'00AB'CDEF};
  std::array<Bucket, 2> buckets = {};
  buckets[0].entries[3] = make_entry(twin, 1);
  buckets[1].entries[2] = make_entry(key, 2);
  Candidates found = find_candidates(buckets, key, 10);
  ASSERT_EQ(found.count, 2u);
  EXPECT_EQ(entry_slot(found.entries[0]), 1u);
  EXPECT_EQ(entry_slot(found.entries[1]), 2u);
  for (auto& entry : buckets[0].entries) entry = make_entry(twin, 1);
  found = find_candidates(buckets, key, 10);
  EXPECT_EQ(found.count, 4u);
}

}  // namespace
}  // namespace farpage
