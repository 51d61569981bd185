#include "pagetable/location_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

namespace farpage {
namespace {

PageKey numbered_key(uint64_t number) {
  std::mt19937_64 random(number + 1);
  return {random(), random()};
}

// In one window of every cache: homes come from the key's upper bits.
PageKey crowded_key(uint64_t number) {
  return {number + 1, number * 0x9E3779B97F4A7C15};
}

TEST(LocationCache, RemembersWhatWasInsertedLast) {
  LocationCache cache = LocationCache::create(100).value();
  Location found;
  EXPECT_FALSE(cache.find(numbered_key(1), found));
  cache.insert(numbered_key(1), {5, 10});
  ASSERT_TRUE(cache.find(numbered_key(1), found));
  EXPECT_EQ(found.slot, 5u);
  EXPECT_EQ(found.version, 10u);
  cache.insert(numbered_key(1), {6, 11});
  ASSERT_TRUE(cache.find(numbered_key(1), found));
  EXPECT_EQ(found.slot, 6u);
  cache.erase(numbered_key(1));
  EXPECT_FALSE(cache.find(numbered_key(1), found));
}

TEST(LocationCache, OlderVersionNeverReplacesANewer) {
  LocationCache cache = LocationCache::create(100).value();
  cache.insert(numbered_key(1), {5, 10});
  cache.insert(numbered_key(1), {4, 9});
  Location found;
  ASSERT_TRUE(cache.find(numbered_key(1), found));
  EXPECT_EQ(found.version, 10u);
  EXPECT_EQ(found.slot, 5u);
  cache.erase(numbered_key(1));
  cache.insert(numbered_key(1), {4, 9});
  ASSERT_TRUE(cache.find(numbered_key(1), found));
  EXPECT_EQ(found.version, 9u);
}

TEST(LocationCache, KeysThatShareHalfOfTheirBitsAreApart) {
  LocationCache cache = LocationCache::create(100).value();
  cache.insert({1, 1}, {1, 1});
  Location found;
  EXPECT_FALSE(cache.find({1, 2}, found));
  EXPECT_FALSE(cache.find({2, 1}, found));
}

TEST(LocationCache, HoldsThePagesItWasMadeFor) {
  constexpr uint64_t kPages = 20'000;
  LocationCache cache = LocationCache::create(kPages).value();
  EXPECT_LE(cache.bytes(), kPages * 72);
  for (uint64_t i = 0; i < kPages; ++i) cache.insert(numbered_key(i), {i, i + 1});
  uint64_t kept = 0;
  for (uint64_t i = 0; i < kPages; ++i) {
    Location found;
    if (!cache.find(numbered_key(i), found)) continue;
    ++kept;
    EXPECT_EQ(found.slot, i);
    EXPECT_EQ(found.version, i + 1);
  }
  EXPECT_GE(kept, kPages * 99 / 100);
}

TEST(LocationCache, FullWindowLosesPagesButNeverMixesThem) {
  LocationCache cache = LocationCache::create(10).value();
  constexpr uint64_t kKeys = 100;
  for (uint64_t i = 0; i < kKeys; ++i) {
    cache.insert(crowded_key(i), {i, i + 1});
    Location found;
    ASSERT_TRUE(cache.find(crowded_key(i), found)) << "the page that was inserted last is lost";
    EXPECT_EQ(found.slot, i);
  }
  uint64_t kept = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    Location found;
    if (!cache.find(crowded_key(i), found)) continue;
    ++kept;
    EXPECT_EQ(found.slot, i);
    EXPECT_EQ(found.version, i + 1);
  }
  EXPECT_EQ(kept, 16u);
}

TEST(LocationCache, ErasedPlacesAreUsedAgain) {
  LocationCache cache = LocationCache::create(10).value();
  for (uint64_t i = 0; i < 16; ++i) cache.insert(crowded_key(i), {i, i + 1});
  for (uint64_t round = 0; round < 100; ++round) {
    cache.erase(crowded_key(round));
    cache.insert(crowded_key(round + 16), {round + 16, round + 17});
  }
  for (uint64_t i = 100; i < 116; ++i) {
    Location found;
    ASSERT_TRUE(cache.find(crowded_key(i), found)) << i;
    EXPECT_EQ(found.slot, i);
  }
}

// Against a map that never forgets: a cache may have lost a key, but says nothing else about it.
RC_GTEST_PROP(LocationCacheProperty, AgreesWithAMapOrHasForgotten, ()) {
  const uint64_t pages = *rc::gen::inRange<uint64_t>(1, 40);
  const uint64_t keys = *rc::gen::inRange<uint64_t>(1, 80);
  const bool crowded = *rc::gen::arbitrary<bool>();
  LocationCache cache = LocationCache::create(pages).value();
  std::map<uint64_t, Location> reference;
  std::mt19937_64 random(*rc::gen::arbitrary<uint32_t>());
  for (int step = 0; step < 500; ++step) {
    const uint64_t number = random() % keys;
    const PageKey key = crowded ? crowded_key(number) : numbered_key(number);
    Location found;
    const bool known = cache.find(key, found);
    if (known) {
      RC_ASSERT(reference.contains(number));
      RC_ASSERT(found.slot == reference[number].slot);
      RC_ASSERT(found.version == reference[number].version);
    }
    if (random() % 4 == 0) {
      cache.erase(key);
      reference.erase(number);
      RC_ASSERT(!cache.find(key, found));
      continue;
    }
    const Location location = {random() % 1000, 1 + random() % 1000};
    cache.insert(key, location);
    // A newer one that the cache has forgotten cannot keep its place.
    if (!known || reference[number].version <= location.version) reference[number] = location;
    RC_ASSERT(cache.find(key, found));
    RC_ASSERT(found.version == reference[number].version);
    RC_ASSERT(found.slot == reference[number].slot);
  }
}

// Both halves of a location carry the key's number, so a key never gets what was inserted for
// another unless its entry was mixed from two writes, which the header in the slot finds out.
TEST(LocationCache, ThreadsShareIt) {
  constexpr uint64_t kKeys = 64;
  constexpr int kSteps = 20'000;
  LocationCache cache = LocationCache::create(kKeys).value();
  std::atomic<uint64_t> strangers = 0;
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t number = random() % kKeys;
      const PageKey key = numbered_key(number);
      Location found;
      switch (random() % 4) {
        case 0:
          cache.insert(key, {number, (random() % 1000 + 1) * kKeys + number});
          break;
        case 1:
          cache.erase(key);
          break;
        default:
          if (cache.find(key, found) && (found.slot >= kKeys || found.version == 0)) ++strangers;
      }
    }
  };
  std::thread first(work, 1);
  std::thread second(work, 2);
  first.join();
  second.join();
  EXPECT_EQ(strangers, 0u);
}

// One writer that only moves forward in a window of its own: a reader sees versions grow.
TEST(LocationCache, ReaderNeverSeesVersionsGoBack) {
  LocationCache cache = LocationCache::create(100).value();
  const PageKey key = numbered_key(1);
  constexpr uint64_t kLast = 100'000;
  std::atomic<bool> finished = false;
  uint64_t backwards = 0;
  std::thread reader([&] {
    uint64_t last = 0;
    while (!finished) {
      Location found;
      if (!cache.find(key, found)) continue;
      if (found.version < last) ++backwards;
      last = found.version;
    }
  });
  for (uint64_t version = 1; version <= kLast; ++version) cache.insert(key, {version, version});
  finished = true;
  reader.join();
  EXPECT_EQ(backwards, 0u);
  Location found;
  ASSERT_TRUE(cache.find(key, found));
  EXPECT_EQ(found.version, kLast);
  EXPECT_EQ(found.slot, kLast);
}

}  // namespace
}  // namespace farpage
