#include "tier/link/page_reports.h"

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint32_t kAgainTicks = 1'000;  // of a millisecond
constexpr int kMostTries = 4;            // another thread was faster; a report may be lost

// A place's word: the tick in its upper half, which wraps after 49 days, and a part of the key.
uint32_t tick_of(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

}  // namespace

bool PageReports::add(const PageKey& key, uint64_t now_ns) {
  const auto now = static_cast<uint32_t>(now_ns / kMillisecond);
  if (full_.load(std::memory_order_relaxed)) {
    const uint32_t until = full_until_.load(std::memory_order_relaxed);
    // Signed, since ticks wrap.
    if (static_cast<int32_t>(until - now) > 0 && until - now <= kAgainTicks) return false;
    full_.store(false, std::memory_order_relaxed);
  }
  const auto part = static_cast<uint32_t>(key.high) | 1;  // so that no word is 0
  const uint64_t mine = uint64_t{now} << 32 | part;
  for (int tries = 0; tries < kMostTries; ++tries) {
    Place* free = nullptr;
    uint64_t seen = 0;
    uint32_t oldest_age = 0;
    for (size_t i = 0; i < kMostKeys; ++i) {
      Place& place = places_[(key.low + i) % kMostKeys];
      // In this order: a place that another thread takes meanwhile, for this key, shows the key.
      const bool waits = place.waits.load(std::memory_order_acquire);
      const uint64_t word = place.passed.load(std::memory_order_acquire);
      const uint32_t age = now - tick_of(word);
      // A clock that another thread has read a moment later is as good as now.
      const bool recent = word != 0 && (age < kAgainTicks || age > UINT32_MAX - kAgainTicks);
      if (recent && static_cast<uint32_t>(word) == part) return false;
      if (recent) {
        oldest_age = age < kAgainTicks && age > oldest_age ? age : oldest_age;
      } else if (free == nullptr && !waits) {
        free = &place;
        seen = word;
      }
    }
    if (free == nullptr) {
      full_until_.store(now + (kAgainTicks - oldest_age), std::memory_order_relaxed);
      full_.store(true, std::memory_order_relaxed);
      return false;
    }
    if (!free->passed.compare_exchange_strong(seen, mine, std::memory_order_acq_rel)) continue;
    free->low.store(key.low, std::memory_order_relaxed);
    free->high.store(key.high, std::memory_order_relaxed);
    free->waits.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

std::vector<PageKey> PageReports::take() {
  std::vector<PageKey> keys;
  for (Place& place : places_) {
    if (!place.waits.load(std::memory_order_acquire)) continue;
    keys.push_back(
        {place.low.load(std::memory_order_relaxed), place.high.load(std::memory_order_relaxed)});
    place.waits.store(false, std::memory_order_release);
  }
  return keys;
}

}  // namespace farpage
