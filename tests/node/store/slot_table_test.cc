#include "node/store/slot_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace farpage {
namespace {

constexpr uint64_t kReuse = 1000;

TEST(SlotTable, GivesEverySlotOnce) {
  SlotTable table(10, kReuse);
  std::set<uint32_t> taken;
  for (int i = 0; i < 10; ++i) taken.insert(table.take(0).value());
  EXPECT_EQ(taken.size(), 10u);
  EXPECT_EQ(*taken.rbegin(), 9u);
  EXPECT_FALSE(table.take(kNever - 1).has_value());
  EXPECT_EQ(table.next_take_ns(), kNever);
}

TEST(SlotTable, RetiredSlotComesBackAtTheNanosecond) {
  SlotTable table(1, kReuse);
  const uint32_t slot = table.take(0).value();
  table.publish(slot);
  table.retire(slot, 5'000);
  EXPECT_EQ(table.next_take_ns(), 5'000 + kReuse);
  EXPECT_FALSE(table.take(5'000 + kReuse - 1).has_value());
  EXPECT_EQ(table.take(5'000 + kReuse), slot);
}

TEST(SlotTable, DeadSlotsQueueByTheirDeathAndServeFillsInItsEpochAlone) {
  SlotTable table(4, kReuse);
  for (int i = 0; i < 4; ++i) table.publish(table.take(0).value());
  EXPECT_FALSE(table.oldest_dead());
  table.kill(2);
  table.kill(0);
  table.begin_epoch();
  table.kill(3);
  EXPECT_EQ(table.dead_count(), 3u);
  EXPECT_EQ(table.oldest_dead(), 2u);
  EXPECT_FALSE(table.serves_fills(2));
  EXPECT_FALSE(table.serves_fills(0));
  EXPECT_TRUE(table.serves_fills(3));
  EXPECT_FALSE(table.serves_fills(1)) << "it is live";
  table.retire(0, 1);  // in the middle of the queue
  table.retire(2, 2);  // its head
  EXPECT_EQ(table.oldest_dead(), 3u);
  table.retire(3, 3);
  EXPECT_FALSE(table.oldest_dead());
  EXPECT_EQ(table.dead_count(), 0u);
  EXPECT_EQ(table.take(kNever - 1), 0u) << "the first that was retired";
}

// A put would else stand still while the hand passes all of them.
TEST(SlotTable, AVictimIsFoundAfterSomeThousandLooksAlsoWhereAllWereTouched) {
  constexpr uint32_t kSlots = 100'000;
  SlotTable table(kSlots, kReuse);
  for (uint32_t i = 0; i < kSlots; ++i) table.publish(table.take(0).value());
  for (uint32_t i = 0; i < kSlots; ++i) table.touch(i);
  table.pin(0);
  EXPECT_EQ(table.choose_victim(), 1u);
  table.retire(1, 0);
  // The hand has passed some thousands, and stands before touched ones.
  EXPECT_GT(table.choose_victim(), 2'000u);
  EXPECT_LT(table.choose_victim(), 20'000u);
}

TEST(SlotTable, PinnedSlotIsNoVictim) {
  SlotTable table(3, kReuse);
  for (int i = 0; i < 3; ++i) table.publish(table.take(0).value());
  table.pin(0);
  table.pin(0);
  table.pin(2);
  EXPECT_EQ(table.choose_victim(), 1u);
  table.retire(1, 0);
  EXPECT_FALSE(table.choose_victim().has_value());
  table.unpin(0);
  EXPECT_EQ(table.choose_victim(), 0u);
  table.retire(2, 0);  // a pin ends with its page
  EXPECT_EQ(table.take(kReuse), 1u);
  table.publish(1);
  EXPECT_TRUE(table.choose_victim().has_value());
}

TEST(SlotTable, DeadSlotIsNeitherLiveNorFreeUntilItHasCooled) {
  SlotTable table(1, kReuse);
  table.publish(table.take(0).value());
  table.pin(0);
  table.kill(0);
  EXPECT_TRUE(table.is_dead(0));
  EXPECT_FALSE(table.is_live(0));
  EXPECT_EQ(table.live_count(), 0u);
  EXPECT_EQ(table.dead_count(), 1u);
  EXPECT_FALSE(table.choose_victim().has_value());
  EXPECT_EQ(table.next_take_ns(), kNever);
  table.retire(0, 5'000);
  EXPECT_EQ(table.dead_count(), 0u);
  EXPECT_EQ(table.take(5'000 + kReuse), 0u);
}

TEST(SlotTable, ReleasedSlotNeedsNoTime) {
  SlotTable table(1, kReuse);
  const uint32_t slot = table.take(0).value();
  table.release(slot);
  EXPECT_EQ(table.next_take_ns(), 0u);
  EXPECT_EQ(table.take(0), slot);
}

TEST(SlotTable, FreeSlotsGoBeforeCooledOnesAndThoseInOrder) {
  SlotTable table(3, kReuse);
  for (int i = 0; i < 3; ++i) table.publish(table.take(0).value());
  table.retire(1, 10);
  table.retire(0, 20);
  table.retire(2, 30);
  EXPECT_EQ(table.take(10 + kReuse), 1u);
  table.release(1);
  EXPECT_EQ(table.take(30 + kReuse), 1u);
  EXPECT_EQ(table.take(30 + kReuse), 0u);
  EXPECT_EQ(table.take(30 + kReuse), 2u);
}

TEST(SlotTable, ClockGivesTouchedSlotsASecondChance) {
  SlotTable table(4, kReuse);
  for (int i = 0; i < 4; ++i) table.publish(table.take(0).value());
  table.touch(0);
  table.touch(2);
  EXPECT_EQ(table.choose_victim(), 1u);
  table.retire(1, 0);
  EXPECT_EQ(table.choose_victim(), 3u);
  table.retire(3, 0);
  // The hand has passed 0 and 2 once by now; only 2 is touched again.
  table.touch(2);
  EXPECT_EQ(table.choose_victim(), 0u);
  table.retire(0, 0);
  EXPECT_EQ(table.choose_victim(), 2u);
  table.retire(2, 0);
  EXPECT_FALSE(table.choose_victim().has_value());
}

TEST(SlotTable, AllTouchedStillGivesAVictim) {
  SlotTable table(3, kReuse);
  for (int i = 0; i < 3; ++i) table.publish(table.take(0).value());
  for (uint32_t i = 0; i < 3; ++i) table.touch(i);
  EXPECT_EQ(table.choose_victim(), 0u);
}

TEST(SlotTable, TouchesOfWhatIsNotLiveAreIgnored) {
  SlotTable table(2, kReuse);
  for (const uint32_t slot : {0u, 1u, 2u, UINT32_MAX}) table.touch(slot);
  const uint32_t slot = table.take(0).value();
  table.touch(slot);
  table.publish(slot);
  EXPECT_EQ(table.choose_victim(), slot);  // untouched: publishing starts afresh
}

// Random lives in virtual time, against a model: no slot is handed out early, twice, or forgotten.
RC_GTEST_PROP(SlotTableProperty, LifeOfSlots, (uint32_t seed)) {
  const uint32_t slots = *rc::gen::inRange<uint32_t>(1, 20);
  SlotTable table(slots, kReuse);
  std::mt19937_64 random(seed);
  std::set<uint32_t> free, held, live;
  std::map<uint32_t, uint64_t> cooling;
  for (uint32_t i = 0; i < slots; ++i) free.insert(i);
  uint64_t now = 0;
  const auto any_of = [&](const std::set<uint32_t>& set) {
    return *std::next(set.begin(), static_cast<ptrdiff_t>(random() % set.size()));
  };
  for (int step = 0; step < 400; ++step) {
    now += random() % (kReuse / 2);
    switch (random() % 4) {
      case 0: {
        const bool possible = !free.empty() || std::ranges::any_of(cooling, [&](const auto& entry) {
          return entry.second + kReuse <= now;
        });
        RC_ASSERT((table.next_take_ns() <= now) == possible);
        const auto slot = table.take(now);
        RC_ASSERT(slot.has_value() == possible);
        if (!slot) break;
        RC_ASSERT(free.erase(*slot) + cooling.erase(*slot) == 1u);
        held.insert(*slot);
        break;
      }
      case 1: {
        if (held.empty()) break;
        const uint32_t slot = any_of(held);
        held.erase(slot);
        if (random() % 4 == 0) {
          table.release(slot);
          free.insert(slot);
        } else {
          table.publish(slot);
          live.insert(slot);
        }
        break;
      }
      case 2: {
        const auto victim = table.choose_victim();
        RC_ASSERT(victim.has_value() == !live.empty());
        if (!victim) break;
        RC_ASSERT(live.erase(*victim) == 1u);
        table.retire(*victim, now);
        cooling[*victim] = now;
        break;
      }
      default:
        table.touch(static_cast<uint32_t>(random() % (slots + 2)));
    }
    RC_ASSERT(table.free_count() == free.size());
    RC_ASSERT(table.live_count() == live.size());
    RC_ASSERT(table.cooling_count() == cooling.size());
  }
}

}  // namespace
}  // namespace farpage
