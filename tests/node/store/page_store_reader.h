#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "integrity/crc32c.h"
#include "integrity/page_check.h"
#include "node/store/page_store.h"
#include "pagetable/index_layout.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {

inline constexpr uint64_t kPageBytes = 256;
inline constexpr uint64_t kReuse = 64'000;
inline constexpr uint64_t kCooling = kReuse + kReuse / 64;
inline constexpr uint64_t kIncarnation = 77;

struct HandClock final : Clock {
  uint64_t now = kSecond;
  uint64_t now_ns() const override { return now; }
};

// SplitMix64: far cheaper to start than std::mt19937_64.
inline uint64_t mixed(uint64_t number) {
  number += 0x9E3779B97F4A7C15;
  number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9;
  number = (number ^ number >> 27) * 0x94D049BB133111EB;
  return number ^ number >> 31;
}

inline PageKey key_of(uint64_t number) {
  return {mixed(number), mixed(~number)};
}

inline std::string content(uint64_t number, Version version) {
  std::string text(1 + number * 7 % kPageBytes, '\0');
  uint64_t state = mixed(number << 32 ^ version);
  for (char& byte : text) byte = static_cast<char>(state = mixed(state));
  return text;
}

// A store, and what a reader with a mapping of it sees.
class Store {
 public:
  explicit Store(uint64_t slots, bool evict = true) {
    const Geometry geometry = make_geometry(kPageBytes, slots * (kPageBytes + 64)).value();
    store_ = PageStore::create({geometry, kIncarnation, kReuse, evict}, fabric_, clock).value();
  }

  PageStore* operator->() { return store_.get(); }
  void kill_if(const std::function<bool(const PageKey&)>& foreign) {
    store_->kill_if(0, store_->slots().size(), foreign);
  }
  uint64_t slots() const { return store_->geometry().slots; }

  Code put(uint64_t number, Version version) {
    const std::string text = content(number, version);
    return put_text(number, version, text, crc32c(0, text.data(), text.size()));
  }
  Code put_text(uint64_t number, Version version, const std::string& text, uint32_t crc) {
    return store_->put(key_of(number), version,
                       {reinterpret_cast<const std::byte*>(text.data()), text.size()}, crc);
  }

  PageHeader header(uint64_t slot) const {
    PageHeader header;
    std::memcpy(&header, slot_bytes(slot), sizeof header);
    return header;
  }
  const std::byte* slot_bytes(uint64_t slot) const {
    return store_->pool().data() + store_->geometry().header_offset(slot);
  }
  // All but the live word.
  std::string frozen_bytes(uint64_t slot) const {
    std::string bytes(reinterpret_cast<const char*>(slot_bytes(slot)),
                      store_->geometry().slot_bytes());
    return bytes.erase(offsetof(PageHeader, live), sizeof(uint64_t));
  }

  std::optional<uint64_t> find_slot(uint64_t number) const {
    const PageKey key = key_of(number);
    const auto* index = reinterpret_cast<const Bucket*>(store_->index().data());
    const auto homes = key_buckets(key, store_->geometry().buckets);
    const std::array<Bucket, 2> buckets = {index[homes[0]], index[homes[1]]};
    const Candidates candidates = find_candidates(buckets, key, slots());
    for (uint32_t i = 0; i < candidates.count; ++i) {
      const uint64_t slot = entry_slot(candidates.entries[i]);
      if (check_header(header(slot), {key, 0, 0, kIncarnation, 0}) == PageFinding::kGood)
        return slot;
    }
    return std::nullopt;
  }
  // The version of the page that a reader finds, and whose bytes are those that were put.
  std::optional<Version> read(uint64_t number) const {
    const auto slot = find_slot(number);
    if (!slot) return std::nullopt;
    const PageHeader found = header(*slot);
    const std::string text(reinterpret_cast<const char*>(slot_bytes(*slot)) + sizeof(PageHeader),
                           found.payload_bytes);
    EXPECT_EQ(text, content(number, found.version));
    EXPECT_EQ(found.payload_crc, crc32c(0, text.data(), text.size()));
    return found.version;
  }
  std::set<uint64_t> live_slots() const {
    std::set<uint64_t> live;
    for (uint64_t slot = 0; slot < slots(); ++slot) {
      if (header(slot).live != 0) live.insert(slot);
    }
    return live;
  }

  HandClock clock;

 private:
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  std::unique_ptr<PageStore> store_;
};

}  // namespace farpage
