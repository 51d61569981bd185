#include "node/store/recovered_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "integrity/crc32c.h"
#include "integrity/page_check.h"
#include "node/store/page_store.h"
#include "pagetable/index_layout.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "sim/sim_pool_keeper.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 256;
constexpr uint64_t kSlots = 32;
constexpr uint64_t kReuse = 64'000;
constexpr uint64_t kCooling = kReuse + kReuse / 64;
constexpr uint64_t kEpoch = 7;

struct HandClock final : Clock {
  uint64_t now = kSecond;
  uint64_t now_ns() const override { return now; }
};

PageKey key_of(uint64_t number) {
  return make_page_key("former", std::to_string(number));
}
Version version_of(uint64_t count) {
  return make_version(kEpoch, count);
}
std::vector<std::byte> content(uint64_t number, uint64_t count) {
  return std::vector<std::byte>(kPageBytes - number % 7,
                                static_cast<std::byte>(number * 16 + count));
}

// Runs of a node's store, one after the other, on the same memory.
class RecoveredPagesTest : public testing::Test {
 protected:
  RecoveredPagesTest() { begin(); }

  // Another run; the one before ends first.
  void begin(std::string_view whose = "one") {
    store_.reset();
    store_ = PageStore::create({geometry_, ++incarnation_, kReuse, true}, fabric_, clock_, &keeper_,
                               whose)
                 .value();
  }
  Code put(uint64_t number, uint64_t count, uint32_t name_space = 0) {
    const auto bytes = content(number, count);
    return store_->put(key_of(number), version_of(count), bytes,
                       crc32c(0, bytes.data(), bytes.size()), false, name_space);
  }
  std::byte* slot_bytes(uint32_t slot) {
    return store_->pool().data() + geometry_.header_offset(slot);
  }
  PageHeader& header(uint32_t slot) { return *reinterpret_cast<PageHeader*>(slot_bytes(slot)); }

  // The version that a reader of this run accepts; 0: none. Its bytes are those of that put.
  Version read(uint64_t number) {
    const auto* index = reinterpret_cast<const Bucket*>(store_->index().data());
    const auto homes = key_buckets(key_of(number), geometry_.buckets);
    const std::array<Bucket, 2> buckets = {index[homes[0]], index[homes[1]]};
    const Candidates candidates = find_candidates(buckets, key_of(number), geometry_.slots);
    for (uint32_t i = 0; i < candidates.count; ++i) {
      const auto slot = static_cast<uint32_t>(entry_slot(candidates.entries[i]));
      PageExpectation expected;
      expected.key = key_of(number);
      expected.incarnation = incarnation_;
      if (check_header(header(slot), expected) != PageFinding::kGood) continue;
      const Version version = header(slot).version;
      const auto bytes = content(number, version & kMaxVersionCounter);
      EXPECT_EQ(header(slot).payload_bytes, bytes.size());
      EXPECT_EQ(std::memcmp(slot_bytes(slot) + sizeof(PageHeader), bytes.data(), bytes.size()), 0);
      return version;
    }
    return 0;
  }
  // Whether a reader that still holds this location of an earlier run would take it.
  bool is_live_for(uint64_t incarnation, uint32_t slot, uint64_t number) {
    PageExpectation expected;
    expected.key = key_of(number);
    expected.incarnation = incarnation;
    return check_header(header(slot), expected) == PageFinding::kGood;
  }

  const Geometry geometry_ = make_geometry(kPageBytes, kSlots*(kPageBytes + 64)).value();
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  HandClock clock_;
  SimPoolKeeper keeper_;
  uint64_t incarnation_ = 40;
  std::unique_ptr<PageStore> store_;
};

TEST_F(RecoveredPagesTest, NothingIsServedBeforeItIsAdopted) {
  ASSERT_EQ(put(1, 1), Code::kOk);
  const uint32_t slot = store_->find(key_of(1))->slot;
  begin();
  EXPECT_EQ(store_->former(), 1u);
  EXPECT_EQ(read(1), 0u);
  EXPECT_FALSE(store_->find(key_of(1)));
  EXPECT_EQ(store_->slots().live_count(), 0u);
  EXPECT_TRUE(store_->adopt(key_of(1), version_of(1)));
  EXPECT_EQ(read(1), version_of(1));
  EXPECT_EQ(store_->highest_version(), version_of(1));
  EXPECT_FALSE(is_live_for(incarnation_ - 1, slot, 1)) << "a view of the run before";
}

TEST_F(RecoveredPagesTest, OnlyTheVersionThatIsNamedIsAdopted) {
  ASSERT_EQ(put(1, 1), Code::kOk);
  begin();
  EXPECT_FALSE(store_->adopt(key_of(1), version_of(2)));
  EXPECT_FALSE(store_->adopt(key_of(2), version_of(1)));
  EXPECT_EQ(read(1), 0u);
  EXPECT_TRUE(store_->adopt(key_of(1), version_of(1)));
  EXPECT_FALSE(store_->adopt(key_of(1), version_of(1)));
}

TEST_F(RecoveredPagesTest, OfAllOnlyThoseOfEarlierEpochsAreAdopted) {
  for (uint64_t number = 1; number <= 20; ++number) ASSERT_EQ(put(number, number), Code::kOk);
  begin();
  EXPECT_EQ(store_->adopt_all(kEpoch + 1), 20u);
  for (uint64_t number = 1; number <= 20; ++number) EXPECT_EQ(read(number), version_of(number));
  begin();
  EXPECT_EQ(store_->adopt_all(kEpoch), 0u) << "a state file that has gone back";
  for (uint64_t number = 1; number <= 20; ++number) EXPECT_EQ(read(number), 0u);
  begin();
  EXPECT_EQ(store_->former(), 0u) << "and they come back no more";
}

TEST_F(RecoveredPagesTest, WhatIsRemovedEvictedOrReplacedIsNoFormerPage) {
  ASSERT_EQ(put(1, 1), Code::kOk);
  ASSERT_EQ(put(2, 2), Code::kOk);
  ASSERT_EQ(put(1, 3), Code::kOk);
  ASSERT_TRUE(store_->remove(key_of(2)));
  begin();
  EXPECT_EQ(store_->adopt_all(kEpoch + 1), 1u);
  EXPECT_EQ(read(1), version_of(3));
  EXPECT_EQ(read(2), 0u);
}

// Killed between the new page's live word and the old one's.
TEST_F(RecoveredPagesTest, OfTwoOfOneKeyTheNewerIsServed) {
  for (const bool newer_first : {false, true}) {
    const uint64_t older = newer_first ? 15 : 5;
    const uint64_t newer = older + 1;
    ASSERT_EQ(put(1, newer_first ? newer : older), Code::kOk);
    const uint32_t one = store_->find(key_of(1))->slot;
    ASSERT_EQ(put(2, older), Code::kOk);
    const uint32_t other = store_->find(key_of(2))->slot;
    const auto bytes = content(1, newer_first ? older : newer);
    PageHeader page = make_page_header(key_of(1), version_of(newer_first ? older : newer),
                                       incarnation_, static_cast<uint32_t>(bytes.size()),
                                       crc32c(0, bytes.data(), bytes.size()));
    page.live = live_token(page.key, page.version, incarnation_);
    header(other) = page;
    std::memcpy(slot_bytes(other) + sizeof page, bytes.data(), bytes.size());
    begin();
    EXPECT_EQ(store_->former(), 1u);
    EXPECT_EQ(header(newer_first ? other : one).live, 0u);
    EXPECT_EQ(store_->adopt_all(kEpoch + 1), 1u);
    EXPECT_EQ(read(1), version_of(newer));
    store_->remove(key_of(1));
    clock_.now += kCooling;
  }
}

TEST_F(RecoveredPagesTest, ADamagedHeaderProvesNothing) {
  const std::vector<std::function<void(PageHeader&)>> damages = {
      [](PageHeader& page) { page.live = 0; },
      [](PageHeader& page) { page.live ^= 1; },
      [](PageHeader& page) { page.key.low ^= 1; },
      [](PageHeader& page) { page.version ^= 1; },
      [](PageHeader& page) { page.incarnation ^= 1; },
      [](PageHeader& page) { page.payload_crc ^= 1; },
      [](PageHeader& page) { page.magic ^= 1; },
      [](PageHeader& page) {  // whole, and of a page that no slot can hold
        page.payload_bytes = kPageBytes + 1;
        page.header_crc = header_crc(page);
      },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    ASSERT_EQ(put(1, i + 1), Code::kOk);
    const uint32_t slot = store_->find(key_of(1))->slot;
    damages[i](header(slot));
    begin();
    EXPECT_EQ(store_->former(), 0u) << i;
    EXPECT_EQ(header(slot).live, 0u) << i;
    clock_.now += kCooling;
  }
}

// A reader under a view of the run before may still be at any slot of it.
TEST_F(RecoveredPagesTest, NoSlotOfTheRunBeforeIsWrittenBeforeItHasCooled) {
  ASSERT_EQ(put(1, 1), Code::kOk);
  begin();
  EXPECT_EQ(put(2, 2), Code::kExhausted);
  clock_.now += kCooling - 1;
  EXPECT_EQ(put(2, 2), Code::kExhausted);
  clock_.now += 1;
  EXPECT_EQ(put(2, 2), Code::kOk);
}

TEST_F(RecoveredPagesTest, WhatNobodyAdoptsGivesWay) {
  for (uint64_t number = 1; number <= 30; ++number) ASSERT_EQ(put(number, number), Code::kOk);
  begin();
  ASSERT_GT(store_->former(), kSlots - 4);
  std::set<uint64_t> put_again;
  for (uint64_t number = 100; number < 120; ++number) {
    for (int tries = 0; put(number, number) == Code::kExhausted; ++tries) {
      ASSERT_LT(tries, 3);
      clock_.now += kCooling;
    }
  }
  EXPECT_EQ(store_->evictions(), 0u) << "before a page that is served";
  for (uint64_t number = 100; number < 120; ++number) EXPECT_EQ(read(number), version_of(number));
  store_->drop_former(kSlots);
  EXPECT_EQ(store_->former(), 0u);
}

TEST_F(RecoveredPagesTest, AnotherOnesMemoryIsNotTaken) {
  ASSERT_EQ(put(1, 1), Code::kOk);
  begin("another");
  EXPECT_EQ(store_->former(), 0u);
  EXPECT_EQ(put(2, 2), Code::kOk) << "in memory of its own";
  begin("one");
  EXPECT_EQ(store_->former(), 0u) << "which has been given up";
}

TEST_F(RecoveredPagesTest, APageKeepsItsNamespaceInTheNextRun) {
  ASSERT_EQ(put(1, 1, 5), Code::kOk);
  ASSERT_EQ(put(2, 2, 6), Code::kOk);
  begin();
  EXPECT_EQ(store_->adopt_all(kEpoch + 1), 2u);
  EXPECT_EQ(store_->flush(5, 0, kSlots).evicted, 1u);
  EXPECT_EQ(read(1), 0u);
  EXPECT_EQ(read(2), version_of(2));
}

TEST_F(RecoveredPagesTest, FlushDropsPagesThatAreNotAdoptedYet) {
  ASSERT_EQ(put(1, 1, 5), Code::kOk);
  ASSERT_EQ(put(2, 2, 6), Code::kOk);
  begin();
  EXPECT_EQ(store_->flush(5, 0, kSlots).evicted, 1u);
  EXPECT_FALSE(store_->adopt(key_of(1), version_of(1)));
  EXPECT_TRUE(store_->adopt(key_of(2), version_of(2)));
}

}  // namespace
}  // namespace farpage
