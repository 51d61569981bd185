#include "node/store/page_store.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/node/store/page_store_reader.h"

namespace farpage {
namespace {

TEST(PageStore, NewVersionTakesThePlaceOfTheOld) {
  Store store(32);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const uint64_t old = store.find_slot(1).value();
  EXPECT_EQ(store.read(1), 10u);
  ASSERT_EQ(store.put(1, 11), Code::kOk);
  EXPECT_EQ(store.header(old).live, 0u);
  EXPECT_EQ(store.read(1), 11u);
  EXPECT_NE(store.find_slot(1), old);
  EXPECT_EQ(store.live_slots().size(), 1u);
}

TEST(PageStore, PageWithAWrongCrcIsRefusedAndNothingIsPublished) {
  Store store(32);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const std::string text = content(1, 11);
  const uint32_t crc = crc32c(0, text.data(), text.size());
  EXPECT_EQ(store.put_text(1, 11, text, crc ^ 1), Code::kAborted);
  EXPECT_EQ(store.read(1), 10u);
  EXPECT_EQ(store.live_slots().size(), 1u);
  EXPECT_EQ(store->slots().free_count(), store.slots() - 1);
  EXPECT_EQ(store.put_text(2, 12, text, crc ^ 1), Code::kAborted);
  EXPECT_FALSE(store.find_slot(2).has_value());
}

TEST(PageStore, PagesAreAsLongAsASlotAtMost) {
  Store store(4);
  const auto put = [&](size_t bytes) {
    const std::string text(bytes, 'x');
    return store.put_text(1, 1, text, crc32c(0, text.data(), text.size()));
  };
  EXPECT_EQ(put(kPageBytes + 1), Code::kInvalid);
  EXPECT_EQ(put(0), Code::kInvalid);
  EXPECT_EQ(store->slots().free_count(), 4u);
  EXPECT_EQ(put(kPageBytes), Code::kOk);
}

TEST(PageStore, FullStoreWithoutEvictionRefuses) {
  Store store(4, false);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(store.put(i, i + 1), Code::kOk);
  EXPECT_EQ(store.put(9, 9), Code::kExhausted);
  EXPECT_EQ(store.put(1, 9), Code::kExhausted) << "a new version needs a slot of its own";
  EXPECT_EQ(store->next_slot_ns(), kNever);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(store.read(i), i + 1);
  EXPECT_EQ(store->evictions(), 0u);
  ASSERT_TRUE(store->remove(key_of(2)));
  EXPECT_EQ(store->next_slot_ns(), store.clock.now + kCooling);
  store.clock.now += kCooling - 1;
  EXPECT_EQ(store.put(9, 9), Code::kExhausted);
  store.clock.now += 1;
  EXPECT_EQ(store.put(9, 9), Code::kOk);
}

TEST(PageStore, RemovedPageIsGoneAndItsVersionsDoNotComeBack) {
  Store store(32);
  EXPECT_FALSE(store->remove(key_of(1)));
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const uint64_t slot = store.find_slot(1).value();
  EXPECT_TRUE(store->remove(key_of(1)));
  EXPECT_EQ(store.header(slot).live, 0u);
  EXPECT_FALSE(store.find_slot(1).has_value());
  EXPECT_FALSE(store->remove(key_of(1)));
  EXPECT_EQ(store.put(1, 9), Code::kInvalid);
  EXPECT_EQ(store.put(1, 10), Code::kInvalid);
  EXPECT_EQ(store.put(1, 11), Code::kOk);
}

TEST(PageStore, EvictedVersionsDoNotComeBack) {
  Store store(1);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  EXPECT_EQ(store.put(2, 11), Code::kExhausted) << "the slot is cooling";
  EXPECT_EQ(store->evictions(), 1u);
  EXPECT_FALSE(store.find_slot(1).has_value());
  store.clock.now += kCooling;
  EXPECT_EQ(store.put(1, 10), Code::kInvalid);
  EXPECT_EQ(store.put(2, 11), Code::kOk);
}

TEST(PageStore, EvictionPassesOverWhatWasTouched) {
  Store store(32);
  Version version = 0;
  for (uint64_t i = 0; i < 31; ++i) ASSERT_EQ(store.put(i, ++version), Code::kOk);
  const std::set<uint64_t> loved = {0, 3, 5};
  for (uint64_t number = 100; number < 200; ++number) {
    for (const uint64_t i : loved) {
      store->touch(static_cast<uint32_t>(store.find_slot(i).value()));
    }
    ASSERT_EQ(store.put(number, ++version), Code::kOk);
    store.clock.now += kCooling;
  }
  EXPECT_GT(store->evictions(), 60u);
  for (const uint64_t i : loved) EXPECT_TRUE(store.read(i).has_value()) << i;
  EXPECT_FALSE(store.read(1).has_value());
}

TEST(PageStore, TouchesOfAnyNumberAreHarmless) {
  Store store(4);
  ASSERT_EQ(store.put(1, 1), Code::kOk);
  for (const uint32_t slot : {0u, 3u, 4u, UINT32_MAX}) store->touch(slot);
  EXPECT_EQ(store.read(1), 1u);
}

// Puts, removals and touches at random moments. A slot whose live word was cleared keeps every byte
// until L(1+ε) has passed; each key is found with the bytes and version put last, or not at all.
RC_GTEST_PROP(PageStoreProperty, NoSlotIsRewrittenEarlyAndNoPageIsWrong,
              (uint32_t seed, bool evict)) {
  const uint64_t wanted = *rc::gen::inRange<uint64_t>(1, 24);
  Store store(wanted, evict);
  const uint64_t slots = store.slots();
  std::mt19937_64 random(seed);
  std::map<uint64_t, Version> model;
  std::vector<std::string> bytes(slots);
  std::vector<std::optional<uint64_t>> cleared(slots);
  std::vector<bool> was_live(slots, false);
  Version version = 0;
  for (int step = 0; step < 200; ++step) {
    store.clock.now += random() % (random() % 8 == 0 ? 2 * kCooling : kCooling / 8);
    const uint64_t number = random() % (slots + slots / 2 + 1);
    switch (random() % 8) {
      case 0:
        RC_ASSERT(store->remove(key_of(number)) == store.find_slot(number).has_value() ||
                  !store.find_slot(number).has_value());
        model.erase(number);
        RC_ASSERT(!store.find_slot(number).has_value());
        break;
      case 1:
        store->touch(static_cast<uint32_t>(random() % slots));
        break;
      case 2: {
        const std::string text = content(number, version + 1);
        const Code code = store.put_text(number, ++version, text, 1);
        RC_ASSERT(code == Code::kAborted || code == Code::kExhausted);
        break;
      }
      default: {
        const bool possible = store->next_slot_ns() <= store.clock.now;
        const Code code = store.put(number, ++version);
        if (code == Code::kOk) {
          model[number] = version;
          RC_ASSERT(store.read(number) == version);
        } else {
          RC_ASSERT(code == Code::kExhausted);
          RC_ASSERT(!possible);
        }
      }
    }
    for (uint64_t slot = 0; slot < slots; ++slot) {
      const std::string now_there = store.frozen_bytes(slot);
      const bool is_live = store.header(slot).live != 0;
      if (now_there != bytes[slot] && !bytes[slot].empty()) {
        RC_ASSERT(!was_live[slot]);
        if (cleared[slot]) RC_ASSERT(store.clock.now >= *cleared[slot] + kCooling);
        cleared[slot].reset();
      }
      if (was_live[slot] && !is_live) cleared[slot] = store.clock.now;
      bytes[slot] = now_there;
      was_live[slot] = is_live;
    }
    size_t found = 0;
    for (uint64_t i = 0; i <= slots + slots / 2; ++i) {
      const auto held = store.read(i);
      found += held.has_value();
      if (held) RC_ASSERT(model.contains(i) && *held == model[i]);
      if (!evict) RC_ASSERT(held.has_value() == model.contains(i));
    }
    RC_ASSERT(store.live_slots().size() == found);
    RC_ASSERT(store->slots().live_count() == found);
  }
}

TEST(PageStore, PutInOrderIsNotBoundByTheFloor) {
  Store store(32);
  EXPECT_FALSE(store->remove(key_of(1), 10));
  EXPECT_EQ(store->floor(key_of(1)), 10u);
  EXPECT_EQ(store.put(1, 9), Code::kInvalid);
  const std::string text = content(1, 9);
  EXPECT_EQ(store->put(key_of(1), 9, {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                       crc32c(0, text.data(), text.size()), true),
            Code::kOk);
  EXPECT_EQ(store.read(1), 9u);
}

TEST(PageStore, PageThatIsNotWholeIsDroppedAndItsVersionMayComeBack) {
  Store store(32);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  EXPECT_EQ(store->check(key_of(1)), Code::kOk);
  EXPECT_EQ(store->check(key_of(2)), Code::kNotFound);
  const auto damage = [&](uint64_t offset) {
    const uint64_t slot = store.find_slot(1).value();
    const_cast<std::byte*>(store.slot_bytes(slot))[offset] ^= std::byte{1};
    EXPECT_EQ(store->check(key_of(1)), Code::kAborted);
    EXPECT_FALSE(store.find_slot(1).has_value());
    EXPECT_EQ(store.header(slot).live, 0u);
  };
  for (const uint64_t offset : {sizeof(PageHeader), offsetof(PageHeader, live)}) {
    damage(offset);
    EXPECT_EQ(store->floor(key_of(1)), 9u);
    EXPECT_EQ(store.put(1, 10), Code::kOk);
  }
  // Which version it was, nobody can say.
  ASSERT_EQ(store.put(2, 30), Code::kOk);
  damage(offsetof(PageHeader, version));
  EXPECT_EQ(store->floor(key_of(1)), 30u);
}

TEST(PageStore, PinOfAPageWhoseVersionIsDamagedEndsAllTheSame) {
  Store store(32);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const auto slot = static_cast<uint32_t>(store.find_slot(1).value());
  store->pin(slot, 10);
  EXPECT_TRUE(store->slots().is_pinned(slot));
  const_cast<std::byte*>(store.slot_bytes(slot))[offsetof(PageHeader, version)] ^= std::byte{1};
  store->unpin(slot, 10);
  EXPECT_FALSE(store->slots().is_pinned(slot));
}

TEST(PageStore, PinOfAnEarlierPageDoesNotEndThatOfTheSlotsNext) {
  Store store(32);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const auto slot = static_cast<uint32_t>(store.find_slot(1).value());
  store->pin(slot, 10);
  ASSERT_EQ(store.put(1, 11), Code::kOk);
  store->unpin(slot, 11);
  Version version = 11;
  do {
    store.clock.now += kCooling;
    ASSERT_EQ(store.put(2, ++version), Code::kOk);
    ASSERT_LT(version, 100u);
  } while (store.find_slot(2) != slot);
  store->pin(slot, version);
  store->unpin(slot, 10);
  EXPECT_TRUE(store->slots().is_pinned(slot));
  store->unpin(slot, version);
  EXPECT_FALSE(store->slots().is_pinned(slot));
}

// Its entry would else name whatever comes into the slot next: the key's own next page, which is
// then taken for the one before it.
TEST(PageStore, EvictedPageWithADamagedKeyLeavesNoEntryBehind) {
  Store store(16);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const uint64_t slot = store.find_slot(1).value();
  const_cast<std::byte*>(store.slot_bytes(slot))[offsetof(PageHeader, key)] ^= std::byte{1};
  Version version = 10;
  const auto put_newer = [&](uint64_t number) {
    Code code = Code::kExhausted;
    ++version;
    for (int tries = 0; tries < 3 && code == Code::kExhausted; ++tries) {
      code = store.put(number, version);
      store.clock.now += kCooling;
    }
    ASSERT_EQ(code, Code::kOk);
  };
  while (store.header(slot).version == 10) put_newer(version);
  EXPECT_GE(store->floor(key_of(1)), 10u);
  for (int i = 0; i < 64; ++i) {  // through every slot, more than once
    put_newer(1);
    const auto found = store->find(key_of(1));
    ASSERT_TRUE(found && store->slots().is_live(found->slot)) << i;
    EXPECT_EQ(store.read(1), version);
  }
}

// A replica would answer that it holds a newer page than the one it is sent.
TEST(PageStore, VersionThatIsDamagedIsBelievedByNobody) {
  Store store(16);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  const uint64_t slot = store.find_slot(1).value();
  const_cast<std::byte*>(store.slot_bytes(slot))[offsetof(PageHeader, version) + 2] ^= std::byte{1};
  EXPECT_GT(store.header(slot).version, 11u);
  EXPECT_FALSE(store->find(key_of(1)).has_value());
  ASSERT_EQ(store.put(1, 11), Code::kOk);
  EXPECT_EQ(store.read(1), 11u);
  EXPECT_EQ(store->slots().live_count(), 1u);
}

// It would else keep its slot, which nobody can read, until it is evicted.
TEST(PageStore, PageWithADamagedKeyGivesWayToTheNextOfItsKey) {
  const auto damage = [](Store& store) {
    EXPECT_EQ(store.put(1, 10), Code::kOk);
    const uint64_t slot = store.find_slot(1).value();
    const_cast<std::byte*>(store.slot_bytes(slot))[offsetof(PageHeader, key)] ^= std::byte{1};
    return static_cast<uint32_t>(slot);
  };
  Store put(16);
  const uint32_t slot = damage(put);
  ASSERT_EQ(put.put(1, 11), Code::kOk);
  EXPECT_EQ(put.read(1), 11u);
  EXPECT_FALSE(put->slots().is_live(slot));
  EXPECT_EQ(put->slots().live_count(), 1u);

  Store checked(16);
  damage(checked);
  EXPECT_EQ(checked->check(key_of(1)), Code::kAborted) << "for a replica to mend";
  EXPECT_EQ(checked->slots().live_count(), 0u);

  Store removed(16);
  damage(removed);
  EXPECT_TRUE(removed->remove(key_of(1)));
  EXPECT_EQ(removed->slots().live_count(), 0u);
}

TEST(PageStore, WalkGoesOnWhereItStopped) {
  Store store(32);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(store.put(i, 10 + i), Code::kOk);
  std::vector<uint32_t> seen;
  uint32_t at = 0;
  do {
    size_t in_this_turn = 0;
    at = store->walk(at, 7, [&](uint32_t slot, const PageHeader&, bool) {
      if (++in_this_turn > 3) return false;
      seen.push_back(slot);
      return true;
    });
  } while (at != 0 && seen.size() < 100);
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST(PageStore, GeometryOfNoSenseIsRefused) {
  sim::World world(1);
  sim::SimFabric fabric(world, {});
  const HandClock clock;
  EXPECT_FALSE(PageStore::create({Geometry{0, 1, 2}, 1, 1, true}, fabric, clock).has_value());
  EXPECT_FALSE(PageStore::create({Geometry{64, 0, 2}, 1, 1, true}, fabric, clock).has_value());
}

}  // namespace
}  // namespace farpage
