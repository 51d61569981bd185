#include "pagetable/location_cache.h"

#include <atomic>

namespace farpage {
namespace {

void store(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_relaxed);
}

}  // namespace

Result<LocationCache> LocationCache::create(uint64_t pages) {
  LocationCache cache;
  cache.homes_ = 2 * pages + 1;
  auto memory = Mapping::anonymous((cache.homes_ + kWindow) * sizeof(Entry));
  if (!memory) return tl::unexpected(memory.error());
  cache.memory_ = std::move(*memory);
  return cache;
}

void LocationCache::insert(const PageKey& key, const Location& location) {
  Entry* const first = home(key);
  Entry* target = nullptr;
  for (Entry* entry = first; entry < first + kWindow; ++entry) {
    const uint64_t low = load(entry->key_low);
    const uint64_t version = load(entry->version);
    if (low == key.low && load(entry->key_high) == key.high) {
      if (version > location.version) return;
      target = entry;
      break;
    }
    if (version == 0 && target == nullptr) target = entry;
    if (version == 0 && low == 0) break;
  }
  // A full window: the version's low bits choose whom to overwrite, which is as good as at random.
  if (target == nullptr) target = first + location.version % kWindow;
  store(target->version, 0);
  store(target->key_low, key.low);
  store(target->key_high, key.high);
  store(target->slot, location.slot);
  store(target->version, location.version);
}

void LocationCache::erase(const PageKey& key) {
  Entry* entry = home(key);
  for (uint64_t i = 0; i < kWindow; ++i, ++entry) {
    const uint64_t low = load(entry->key_low);
    if (low == key.low && load(entry->key_high) == key.high) {
      store(entry->version, 0);
      return;
    }
    if (low == 0 && load(entry->version) == 0) return;
  }
}

void LocationCache::prefetch(const PageKey& key) const {
  const Entry* entry = home(key);
  __builtin_prefetch(entry);
  __builtin_prefetch(entry + 2);
}

}  // namespace farpage
