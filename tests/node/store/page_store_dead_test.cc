#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "node/store/page_store.h"
#include "tests/node/store/page_store_reader.h"

namespace farpage {
namespace {

TEST(PageStoreDead, KilledPageIsReadByNobodyAndItsBytesStayInThatEpochUntilTheirSlotIsWanted) {
  Store store(32);
  ASSERT_EQ(store.put(1, 10), Code::kOk);
  ASSERT_EQ(store.put(2, 11), Code::kOk);
  uint64_t number = 2;
  const uint64_t slot = store.find_slot(1).value();
  const std::string bytes = store.frozen_bytes(slot);
  store.kill_if([](const PageKey& key) { return key == key_of(1); });
  EXPECT_FALSE(store->find(key_of(1)).has_value());
  EXPECT_EQ(store.header(slot).live, 0u);
  EXPECT_EQ(store->floor(key_of(1)), 10u);
  EXPECT_EQ(store.read(2), 11u);
  EXPECT_EQ(store.frozen_bytes(slot), bytes);
  std::map<uint32_t, bool> walked;
  const auto visit = [&](uint32_t at, const PageHeader&, bool dead) {
    walked[at] = dead;
    return true;
  };
  EXPECT_EQ(store->walk(0, 100, visit), 0u);
  EXPECT_EQ(walked.size(), 2u);
  EXPECT_TRUE(walked.at(static_cast<uint32_t>(slot)));
  store->begin_epoch();
  walked.clear();
  EXPECT_EQ(store->walk(0, 100, visit), 0u);
  EXPECT_EQ(walked.size(), 1u) << "nobody is told of it any more";
  while (store->slots().dead_count() > 0) ASSERT_EQ(store.put(++number, 20), Code::kOk);
  EXPECT_EQ(store.header(slot).version, 0u) << "who reads it from now on sees another page";
}

TEST(PageStoreDead, PutThatNeedsASlotGivesBackDeadOnesBeforeItEvicts) {
  Store store(32);
  for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(store.put(i, 10 + i), Code::kOk);
  uint64_t killed = 0;
  store.kill_if([&](const PageKey&) { return ++killed <= 3; });
  const uint64_t evictions = store->evictions();
  uint64_t puts = 0;
  while (store->slots().dead_count() > 0 && puts < 100) {
    store.clock.now += kCooling;
    ASSERT_EQ(store.put(100 + puts++, 100), Code::kOk);
    EXPECT_EQ(store->evictions(), evictions);
  }
  EXPECT_GE(puts, 3u);
  store.clock.now += kCooling;
  ASSERT_EQ(store.put(99, 100), Code::kOk);
  EXPECT_EQ(store->evictions(), evictions + 1);
}

TEST(PageStoreDead, DeadSlotsGiveWayAlsoWhereNothingIsEvicted) {
  Store store(4, false);
  for (uint64_t i = 0; i < store.slots(); ++i) ASSERT_EQ(store.put(i, 10 + i), Code::kOk);
  EXPECT_EQ(store.put(100, 100), Code::kExhausted);
  store.kill_if([](const PageKey&) { return true; });
  EXPECT_EQ(store.put(100, 100), Code::kExhausted) << "not before they have cooled";
  EXPECT_EQ(store->next_slot_ns(), store.clock.now + kCooling);
  store.clock.now += kCooling;
  EXPECT_EQ(store.put(100, 100), Code::kOk);
}

}  // namespace
}  // namespace farpage
