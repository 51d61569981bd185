#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "integrity/page_key.h"

namespace farpage {

// The one-sided index: docs/formats/index.md. A bucket is one cache line of eight entries; a key's
// page is in one of two buckets. An entry is one aligned word, so that a store switches it and a
// reader never sees half of it. An entry is a hint: the slot's header decides.
inline constexpr uint32_t kBucketEntries = 8;

struct alignas(64) Bucket {
  std::array<uint64_t, kBucketEntries> entries;
};
static_assert(sizeof(Bucket) == 64);

// 0: empty. Otherwise the slot's number + 1 in the low 40 bits and the key's fingerprint in the
// high 24.
using IndexEntry = uint64_t;

inline constexpr int kEntrySlotBits = 40;

constexpr uint64_t key_fingerprint(const PageKey& key) {
  return key.high & 0xFFFFFF;
}

constexpr IndexEntry make_entry(const PageKey& key, uint64_t slot) {
  return key_fingerprint(key) << kEntrySlotBits | (slot + 1);
}

constexpr uint64_t entry_slot(IndexEntry entry) {
  return (entry & ((uint64_t{1} << kEntrySlotBits) - 1)) - 1;
}

constexpr bool entry_may_be(IndexEntry entry, const PageKey& key) {
  return entry != 0 && entry >> kEntrySlotBits == key_fingerprint(key);
}

// value · range / 2^64: a uniform value below `range` from a uniform 64-bit one, without division.
constexpr uint64_t scale_to(uint64_t value, uint64_t range) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * range >> 64);
}

// The two buckets of a key, always different. `buckets` is at least 2.
constexpr std::array<uint64_t, 2> key_buckets(const PageKey& key, uint64_t buckets) {
  const uint64_t first = scale_to(key.low, buckets);
  const uint64_t second = scale_to(key.high, buckets);
  if (second != first) return {first, second};
  return {first, first + 1 < buckets ? first + 1 : 0};
}

// Entries that may lead to a key's page, in the order in which to try them.
struct Candidates {
  std::array<IndexEntry, 4> entries;
  uint32_t count = 0;
};

// Entries whose slot is out of range are passed over. More than four of one fingerprint in two
// buckets are beyond chance (24 bits each); the rest are left out, and the page is a miss.
inline Candidates find_candidates(std::span<const Bucket, 2> buckets, const PageKey& key,
                                  uint64_t slots) {
  Candidates found;
  for (const Bucket& bucket : buckets) {
    for (const IndexEntry entry : bucket.entries) {
      if (!entry_may_be(entry, key) || entry_slot(entry) >= slots) continue;
      if (found.count < found.entries.size()) found.entries[found.count++] = entry;
    }
  }
  return found;
}

}  // namespace farpage
