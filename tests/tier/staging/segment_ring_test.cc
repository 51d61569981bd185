#include "tier/staging/segment_ring.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "transport/transfer_counters.h"

namespace farpage {
namespace {

// Live segments never share a byte, stay inside the ring at multiples of 64, and never share an
// immediate; and what has been released can be had again.
RC_GTEST_PROP(SegmentRingProperty, LiveSegmentsNeverOverlap, ()) {
  const auto ring_bytes = *rc::gen::inRange<uint64_t>(1, 4096);
  SegmentRing ring(ring_bytes);
  std::map<uint64_t, SegmentRing::Segment> live;
  uint64_t last_id = 0;
  const auto steps = *rc::gen::container<std::vector<uint32_t>>(rc::gen::arbitrary<uint32_t>());
  for (const uint32_t step : steps) {
    if (step % 3 == 0 && !live.empty()) {
      auto victim = live.begin();
      std::advance(victim, step / 3 % live.size());
      ring.release(victim->first);
      live.erase(victim);
      continue;
    }
    const uint64_t bytes = step / 3 % 700;
    const auto segment = ring.allocate(bytes);
    if (!segment) continue;
    RC_ASSERT(segment->id > last_id);
    last_id = segment->id;
    RC_ASSERT(segment->bytes >= bytes);
    RC_ASSERT(segment->offset % 64 == 0);
    RC_ASSERT(segment->offset + segment->bytes <= ring_bytes);
    for (const auto& [id, other] : live) {
      RC_ASSERT(segment->offset + segment->bytes <= other.offset ||
                other.offset + other.bytes <= segment->offset);
      RC_ASSERT(segment->immediate != other.immediate);
    }
    live.emplace(segment->id, *segment);
  }
  for (const auto& [id, segment] : live) ring.release(id);
  RC_ASSERT(ring_bytes < 64 || ring.allocate(ring_bytes / 64 * 64).has_value());
}

TEST(SegmentRing, FullRingTakesMoreOnlyWhenTheOldestIsReleased) {
  SegmentRing ring(256);
  const auto first = ring.allocate(128);
  const auto second = ring.allocate(128);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(ring.allocate(1));
  ring.release(second->id);
  EXPECT_FALSE(ring.allocate(1));  // the ring is freed in its own order
  ring.release(first->id);
  EXPECT_TRUE(ring.allocate(256));
}

TEST(SegmentRing, NothingLongerThanTheRing) {
  SegmentRing ring(256);
  EXPECT_FALSE(ring.allocate(257));
  EXPECT_TRUE(ring.allocate(256));
}

// Protocol rule 16: a counter serves its next transfer only after the node has answered for the
// last one, so no more may be out than half of the counters.
TEST(SegmentRing, NoMoreSegmentsThanCountersAllow) {
  SegmentRing ring(uint64_t{1} << 30);
  std::vector<uint64_t> ids;
  while (const auto segment = ring.allocate(64)) ids.push_back(segment->id);
  EXPECT_EQ(ids.size(), kTransferCounters / 2);
  ring.release(ids.front());
  EXPECT_TRUE(ring.allocate(64));
  EXPECT_FALSE(ring.allocate(64));
}

TEST(SegmentRing, ImmediateOfACounterGrowsByOneGeneration) {
  SegmentRing ring(64);
  std::map<uint32_t, uint32_t> generations;
  for (uint32_t i = 0; i < 3 * kTransferCounters; ++i) {
    const auto segment = ring.allocate(64);
    ASSERT_TRUE(segment);
    const uint32_t counter = segment->immediate % kTransferCounters;
    const uint32_t generation = segment->immediate >> kTransferCounterBits;
    EXPECT_TRUE(!generations.contains(counter) || generation == generations[counter] + 1);
    generations[counter] = generation;
    ring.release(segment->id);
  }
  EXPECT_EQ(generations.size(), kTransferCounters);
}

}  // namespace
}  // namespace farpage
