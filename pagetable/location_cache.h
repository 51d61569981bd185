#pragma once

#include <atomic>
#include <cstdint>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "integrity/page_header.h"
#include "integrity/page_key.h"
#include "pagetable/index_layout.h"

namespace farpage {

struct Location {
  uint64_t slot = 0;
  Version version = 0;
};

// Where a client last saw each page: the client's page table. Fixed in size; the memory is taken as
// it fills. Its answer is a hint without an age (protocol rule 3): the slot's header must show
// exactly this key and version, so an entry that is outdated, lost or mixed from two writes costs a
// second look and nothing else. That is why its words need no lock and no order among them.
//
// Thread-safe and wait-free.
class LocationCache {
 public:
  // For `pages` pages, which leaves it half full. The fuller it is, the more older entries drop
  // out.
  static Result<LocationCache> create(uint64_t pages);

  bool find(const PageKey& key, Location& location) const {
    const Entry* entry = home(key);
    for (uint64_t i = 0; i < kWindow; ++i, ++entry) {
      const uint64_t low = load(entry->key_low);
      const uint64_t version = load(entry->version);
      if (low == key.low && load(entry->key_high) == key.high) {
        location = {load(entry->slot), version};
        return version != 0;
      }
      if (low == 0 && version == 0) return false;
    }
    return false;
  }
  // A newer version than `location.version` is kept.
  void insert(const PageKey& key, const Location& location);
  void erase(const PageKey& key);

  // Starts to bring the entries of `key` into the cache.
  void prefetch(const PageKey& key) const;

  uint64_t bytes() const { return memory_.bytes(); }

 private:
  struct Entry {
    uint64_t key_low;
    uint64_t key_high;
    uint64_t version;  // 0: erased, or never used when the key is 0 too
    uint64_t slot;
  };
  static_assert(sizeof(Entry) == 32);

  static constexpr uint64_t kWindow = 16;  // entries that a key may stand in, from its home on

  static uint64_t load(const uint64_t& word) {
    return std::atomic_ref<const uint64_t>(word).load(std::memory_order_relaxed);
  }
  Entry* home(const PageKey& key) const {
    return reinterpret_cast<Entry*>(memory_.data()) + scale_to(key.low, homes_);
  }

  Mapping memory_;
  uint64_t homes_ = 0;
};

}  // namespace farpage
