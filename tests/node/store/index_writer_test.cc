#include "node/store/index_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <thread>

namespace farpage {
namespace {

// A pool of headers alone, and its index.
class Index {
 public:
  explicit Index(uint64_t slots, uint64_t buckets)
      : geometry_{64, slots, buckets},
        pool_(geometry_.pool_bytes() / sizeof(PageHeader)),
        buckets_(buckets),
        writer_(make_writer()) {}

  IndexWriter& writer() { return writer_; }
  // A writer that knows what was written into the buckets from outside.
  void take_over() { writer_ = make_writer(); }
  PageHeader& header(uint64_t slot) {
    return pool_[geometry_.header_offset(slot) / sizeof(PageHeader)];
  }
  Bucket& bucket(uint64_t number) { return buckets_[number]; }
  const Geometry& geometry() const { return geometry_; }

  bool insert(const PageKey& key, uint32_t slot) {
    header(slot) = make_page_header(key, 1, 1, 64, 0);
    return writer_.insert(key, slot);
  }

  // One look, as a client takes it: a bucket after the other.
  bool look(const PageKey& key, uint32_t slot) const {
    const auto homes = key_buckets(key, geometry_.buckets);
    return holds(homes[0], key, slot) || holds(homes[1], key, slot);
  }
  bool holds(uint64_t bucket, const PageKey& key, uint32_t slot) const {
    const IndexEntry wanted = make_entry(key, slot);
    for (const uint64_t& entry : buckets_[bucket].entries) {
      if (std::atomic_ref<const uint64_t>(entry).load(std::memory_order_acquire) == wanted) {
        return true;
      }
    }
    return false;
  }

 private:
  IndexWriter make_writer() {
    return {geometry_, buckets_, reinterpret_cast<const std::byte*>(pool_.data())};
  }

  Geometry geometry_;
  std::vector<PageHeader> pool_;
  std::vector<Bucket> buckets_;
  IndexWriter writer_;
};

PageKey random_key(std::mt19937_64& random) {
  return {random(), random()};
}

TEST(IndexWriter, KeysThatShareAFingerprintAreToldApartByTheirHeaders) {
  Index index(4, 2);
  const PageKey key = {0, 0xABCDEF};
  const PageKey twin = {1, 0x1000ABCDEF};
  ASSERT_EQ(key_fingerprint(key), key_fingerprint(twin));
  ASSERT_TRUE(index.insert(key, 0));
  EXPECT_FALSE(index.writer().find(twin).has_value());
  ASSERT_TRUE(index.insert(twin, 1));
  EXPECT_EQ(index.writer().find(key), 0u);
  EXPECT_EQ(index.writer().find(twin), 1u);
  index.writer().erase(key, 0);
  EXPECT_FALSE(index.writer().find(key).has_value());
  EXPECT_EQ(index.writer().find(twin), 1u);
}

// make_geometry fills the index to three quarters; it must still take all when it is far fuller.
TEST(IndexWriter, TakesKeysUntilItIsNearlyFull) {
  constexpr uint64_t kBuckets = 1000;
  constexpr uint64_t kPlaces = kBuckets * kBucketEntries;
  std::mt19937_64 random(7);
  Index index(kPlaces, kBuckets);
  uint32_t inserted = 0;
  while (inserted < kPlaces && index.insert(random_key(random), inserted)) ++inserted;
  EXPECT_GE(inserted, kPlaces * 90 / 100);
}

TEST(IndexWriter, EveryIndexOfMakeGeometryTakesAllItsSlots) {
  for (const uint64_t slots : {1u, 2u, 3u, 7u, 64u, 1000u, 20'000u}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Geometry geometry = make_geometry(64, slots * 128).value();
      std::mt19937_64 random(seed);
      Index index(slots, geometry.buckets);
      for (uint32_t slot = 0; slot < slots; ++slot) {
        ASSERT_TRUE(index.insert(random_key(random), slot)) << slots << " slots, at " << slot;
      }
    }
  }
}

// Puts, replacements, removals and displacements at 97% of all places, against a map. After every
// step each key of the map is found, by the writer and by a client's look.
RC_GTEST_PROP(IndexWriterProperty, AgreesWithAMap, (uint32_t seed)) {
  constexpr uint64_t kBuckets = 8;
  constexpr uint64_t kPlaces = kBuckets * kBucketEntries;
  std::mt19937_64 random(seed);
  Index index(2 * kPlaces, kBuckets);
  std::map<uint32_t, PageKey> keys;  // by slot
  const auto free_slot = [&] {
    uint32_t slot = 0;
    while (keys.contains(slot)) ++slot;
    return slot;
  };
  const auto any = [&] {
    return std::next(keys.begin(), static_cast<ptrdiff_t>(random() % keys.size()));
  };
  for (int step = 0; step < 300; ++step) {
    const bool full = keys.size() * 100 >= kPlaces * 97;
    const uint64_t choice = full ? 7 : random() % 8;
    if (choice < 5) {
      const uint32_t slot = free_slot();
      const PageKey key = random_key(random);
      if (!index.insert(key, slot)) {
        const uint32_t spared = entry_slot(index.bucket(key_buckets(key, kBuckets)[0]).entries[0]);
        const auto displaced =
            index.writer().in_the_way(key, [&](uint32_t other) { return other != spared; });
        RC_ASSERT(displaced && displaced != spared && keys.contains(*displaced));
        index.writer().erase(keys.at(*displaced), *displaced);
        keys.erase(*displaced);
        RC_ASSERT(index.writer().insert(key, slot));
      }
      keys[slot] = key;
    } else if (choice == 5 && !keys.empty()) {
      const auto chosen = any();
      const auto [old_slot, key] = *chosen;
      const uint32_t slot = free_slot();
      index.header(slot) = make_page_header(key, 2, 1, 64, 0);
      index.writer().replace(key, old_slot, slot);
      keys.erase(chosen);
      keys[slot] = key;
    } else if (!keys.empty()) {
      const auto chosen = any();
      index.writer().erase(chosen->second, chosen->first);
      RC_ASSERT(!index.look(chosen->second, chosen->first));
      keys.erase(chosen);
    }
    size_t entries = 0;
    for (uint64_t bucket = 0; bucket < kBuckets; ++bucket) {
      for (const uint64_t entry : index.bucket(bucket).entries) entries += entry != 0;
    }
    RC_ASSERT(entries == keys.size());
    for (const auto& [slot, key] : keys) {
      RC_ASSERT(index.writer().find(key) == slot);
      RC_ASSERT(index.look(key, slot));
    }
  }
}

// Only the probe can make room, from bucket 0 to 2 and back: what shares a bucket with it has its
// other home in bucket 1, which is full. A client that reads the bucket that it leaves, and then
// the one that it enters, must see it, because it is written there before it is cleared here.
TEST(IndexWriter, KeyThatMovesIsAlwaysInOneOfItsBuckets) {
  constexpr uint64_t kBuckets = 3;
  constexpr uint64_t kMoves = 300'000;
  std::mt19937_64 random(3);
  const auto key_with = [&](uint64_t one, uint64_t other) {
    while (true) {
      const PageKey key = random_key(random);
      const auto homes = key_buckets(key, kBuckets);
      if (std::minmax(homes[0], homes[1]) == std::minmax(one, other)) return key;
    }
  };
  Index index(32, kBuckets);
  uint32_t slots = 0;
  const auto place = [&](uint64_t bucket, size_t at, const PageKey& key) {
    index.header(slots) = make_page_header(key, 1, 1, 64, 0);
    index.bucket(bucket).entries[at] = make_entry(key, slots++);
  };
  const PageKey probe = key_with(0, 2);
  place(0, 0, probe);
  for (size_t i = 1; i < kBucketEntries; ++i) place(0, i, key_with(0, 1));
  for (size_t i = 1; i < kBucketEntries; ++i) place(2, i, key_with(2, 1));
  for (size_t i = 0; i < kBucketEntries; ++i) place(1, i, key_with(1, 0));
  index.take_over();
  const std::array<PageKey, 2> guests = {key_with(0, 1), key_with(2, 1)};

  std::atomic<uint64_t> moves = 0;  // even: the next one is from bucket 0 to bucket 2
  std::atomic<uint64_t> lost = 0;
  std::thread reader([&] {
    while (true) {
      const uint64_t before = moves;
      if (before == kMoves) return;
      const uint64_t from = before % 2 == 0 ? 0 : 2;
      if (index.holds(from, probe, 0) || index.holds(2 - from, probe, 0)) continue;
      if (moves == before) ++lost;
    }
  });
  bool taken = true;
  for (uint64_t i = 0; i < kMoves; ++i) {
    taken &= index.insert(guests[i % 2], slots);
    moves = i + 1;
    index.writer().erase(guests[i % 2], slots);
  }
  reader.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(index.writer().find(probe), 0u);
}

TEST(IndexWriter, EntryOfADamagedHeaderIsNotMoved) {
  constexpr uint64_t kBuckets = 3;
  Index index(64, kBuckets);
  std::mt19937_64 random(5);
  // Fills bucket 0 and damages every header behind it, so that no entry's home is known any more.
  std::vector<std::pair<PageKey, uint32_t>> inserted;
  uint32_t slot = 0;
  const auto full = [&](uint64_t bucket) {
    return std::ranges::count(index.bucket(bucket).entries, 0u) == 0;
  };
  while (!full(0) || !full(1)) {
    const PageKey key = random_key(random);
    const auto homes = key_buckets(key, kBuckets);
    if (std::ranges::count(homes, 2u) > 0) continue;
    ASSERT_TRUE(index.insert(key, slot));
    inserted.emplace_back(key, slot++);
  }
  for (const auto& [key, damaged] : inserted) {
    index.header(damaged).key = {~key.low, ~key.high};
  }
  const Bucket before[] = {index.bucket(0), index.bucket(1)};
  PageKey key = random_key(random);
  while (std::ranges::count(key_buckets(key, kBuckets), 2u) > 0) key = random_key(random);
  EXPECT_FALSE(index.insert(key, slot));
  EXPECT_EQ(index.bucket(0).entries, before[0].entries);
  EXPECT_EQ(index.bucket(1).entries, before[1].entries);
  // The entry in the way is named even so, and its place is taken.
  const auto displaced = index.writer().in_the_way(key, [](uint32_t) { return true; });
  ASSERT_TRUE(displaced && *displaced < slot);
  index.writer().erase_damaged(*displaced, 9);
  EXPECT_EQ(index.writer().floor(inserted[*displaced].first), 9u);
  EXPECT_TRUE(index.writer().insert(key, slot));
  EXPECT_EQ(index.writer().find(key), slot);
}

// Otherwise its next put leaves the old page live, and clients that know its place go on reading
// it.
TEST(IndexWriter, DamagedEntryHidesNoPageFromItsOwnNode) {
  Index index(8, 4);
  const PageKey key = {1, 2};
  ASSERT_TRUE(index.insert(key, 3));
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t bucket : key_buckets(key, 4)) {
      for (uint64_t& entry : index.bucket(bucket).entries) {
        if (entry != 0) entry ^= uint64_t{1} << bit;
      }
    }
    EXPECT_EQ(index.writer().find(key), 3u);
  }
  index.header(4) = make_page_header(key, 2, 1, 64, 0);
  index.writer().replace(key, 3, 4);
  EXPECT_TRUE(index.look(key, 4)) << "mended by the next put";
}

TEST(IndexWriter, NothingIsInTheWayThatMayNotGo) {
  Index index(8, 4);
  const PageKey key = {1, 2};
  ASSERT_TRUE(index.insert(key, 3));
  EXPECT_EQ(index.writer().in_the_way(key, [](uint32_t) { return true; }), 3u);
  EXPECT_EQ(index.writer().in_the_way(key, [](uint32_t) { return false; }), std::nullopt);
}

TEST(IndexWriter, FloorOnlyRises) {
  Index index(8, 4);
  const PageKey key = {1, 2};
  EXPECT_EQ(index.writer().floor(key), 0u);
  index.writer().raise_floor(key, 7);
  index.writer().raise_floor(key, 3);
  EXPECT_EQ(index.writer().floor(key), 7u);
}

}  // namespace
}  // namespace farpage
