#include "node/store/index_writer.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace farpage {
IndexWriter::IndexWriter(const Geometry& geometry, std::span<Bucket> buckets,
                         const std::byte* headers)
    : geometry_(geometry),
      own_(buckets.begin(), buckets.end()),
      published_(buckets),
      headers_(headers),
      floors_(geometry.buckets, 0) {
  FARPAGE_CHECK(buckets.size() == geometry.buckets);
}

void IndexWriter::publish(uint64_t& entry, IndexEntry value) {
  entry = value;
  auto* words = reinterpret_cast<uint64_t*>(published_.data());
  const auto at = &entry - own_.front().entries.data();
  std::atomic_ref<uint64_t>(words[at]).store(value, std::memory_order_release);
}

const PageHeader& IndexWriter::header(uint64_t slot) const {
  return *reinterpret_cast<const PageHeader*>(headers_ + geometry_.header_offset(slot));
}

std::optional<uint32_t> IndexWriter::find(const PageKey& key) const {
  for (const uint64_t bucket : key_buckets(key, geometry_.buckets)) {
    for (const IndexEntry entry : own_[bucket].entries) {
      if (entry_may_be(entry, key) && header(entry_slot(entry)).key == key) {
        return static_cast<uint32_t>(entry_slot(entry));
      }
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> IndexWriter::find_damaged(const PageKey& key) const {
  for (const uint64_t bucket : key_buckets(key, geometry_.buckets)) {
    for (const IndexEntry entry : own_[bucket].entries) {
      if (!entry_may_be(entry, key)) continue;
      const PageHeader& page = header(entry_slot(entry));
      if (header_crc(page) != page.header_crc) return static_cast<uint32_t>(entry_slot(entry));
    }
  }
  return std::nullopt;
}

uint64_t* IndexWriter::find_entry(const PageKey& key, uint32_t slot) {
  const IndexEntry wanted = make_entry(key, slot);
  for (const uint64_t bucket : key_buckets(key, geometry_.buckets)) {
    for (uint64_t& entry : own_[bucket].entries) {
      if (entry == wanted) return &entry;
    }
  }
  return nullptr;
}

uint64_t* IndexWriter::empty_entry(uint64_t bucket) {
  auto& entries = own_[bucket].entries;
  const auto found = std::find(entries.begin(), entries.end(), 0);
  return found == entries.end() ? nullptr : &*found;
}

bool IndexWriter::insert(const PageKey& key, uint32_t slot) {
  const auto candidates = key_buckets(key, geometry_.buckets);
  const auto used = [this](uint64_t bucket) {
    const auto& entries = own_[bucket].entries;
    return kBucketEntries - std::count(entries.begin(), entries.end(), 0);
  };
  const uint64_t emptier =
      used(candidates[0]) <= used(candidates[1]) ? candidates[0] : candidates[1];
  if (empty_entry(emptier) == nullptr && !make_room(candidates[0]) && !make_room(candidates[1])) {
    return false;
  }
  for (const uint64_t bucket : {emptier, candidates[0], candidates[1]}) {
    if (uint64_t* entry = empty_entry(bucket); entry != nullptr) {
      publish(*entry, make_entry(key, slot));
      return true;
    }
  }
  return false;
}

// Moves one entry of a full bucket to its key's other bucket.
bool IndexWriter::make_room(uint64_t bucket) {
  for (uint64_t& entry : own_[bucket].entries) {
    const PageKey& key = header(entry_slot(entry)).key;
    const auto homes = key_buckets(key, geometry_.buckets);
    // A header that was damaged at rest names another key; its entry must stay where its own key
    // is.
    if (!entry_may_be(entry, key) || (homes[0] != bucket && homes[1] != bucket)) continue;
    uint64_t* target = empty_entry(homes[0] == bucket ? homes[1] : homes[0]);
    if (target == nullptr) continue;
    publish(*target, entry);
    publish(entry, 0);
    return true;
  }
  return false;
}

std::optional<uint32_t> IndexWriter::in_the_way(
    const PageKey& key, const std::function<bool(uint32_t slot)>& may_go) const {
  for (const uint64_t bucket : key_buckets(key, geometry_.buckets)) {
    for (const IndexEntry entry : own_[bucket].entries) {
      const auto slot = static_cast<uint32_t>(entry_slot(entry));
      if (entry != 0 && may_go(slot)) return slot;
    }
  }
  return std::nullopt;
}

void IndexWriter::replace(const PageKey& key, uint32_t old_slot, uint32_t new_slot) {
  uint64_t* entry = find_entry(key, old_slot);
  FARPAGE_CHECK(entry != nullptr);
  publish(*entry, make_entry(key, new_slot));
}

void IndexWriter::erase(const PageKey& key, uint32_t slot) {
  if (uint64_t* entry = find_entry(key, slot); entry != nullptr) publish(*entry, 0);
}

void IndexWriter::erase_damaged(uint32_t slot, Version floor) {
  for (size_t bucket = 0; bucket < own_.size(); ++bucket) {
    for (uint64_t& entry : own_[bucket].entries) {
      if (entry == 0 || entry_slot(entry) != slot) continue;
      publish(entry, 0);
      floors_[bucket] = std::max(floors_[bucket], floor);
      return;
    }
  }
}

uint64_t IndexWriter::mend(uint64_t first, uint64_t end) {
  uint64_t mended = 0;
  for (uint64_t bucket = first; bucket < end; ++bucket) {
    for (uint32_t i = 0; i < kBucketEntries; ++i) {
      const std::atomic_ref<uint64_t> published(published_[bucket].entries[i]);
      const IndexEntry own = own_[bucket].entries[i];
      if (published.load(std::memory_order_relaxed) == own) continue;
      published.store(own, std::memory_order_release);
      ++mended;
    }
  }
  return mended;
}

// Of both buckets, as it is not known which of the two is the first of a damaged page's.
Version IndexWriter::floor(const PageKey& key) const {
  const auto homes = key_buckets(key, geometry_.buckets);
  return std::max(floors_[homes[0]], floors_[homes[1]]);
}

void IndexWriter::raise_floor(const PageKey& key, Version version) {
  Version& floor = floors_[key_buckets(key, geometry_.buckets)[0]];
  floor = std::max(floor, version);
}

}  // namespace farpage
