#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

namespace farpage {

// A map of at most `capacity` entries; what was used least recently makes room. One thread at a
// time.
template <typename Key, typename Value>
class LruMap {
 public:
  using Entry = std::pair<Key, Value>;

  explicit LruMap(size_t capacity) : capacity_(capacity) {}

  size_t size() const { return positions_.size(); }

  // The value, which is now the most recently used; null if there is none.
  Value* touch(const Key& key) {
    const auto found = positions_.find(key);
    if (found == positions_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }

  // Adds a key that is not there. Returns what had to go: with no capacity, the new entry itself.
  std::optional<Entry> insert(const Key& key, Value value) {
    if (capacity_ == 0) return Entry(key, std::move(value));
    std::optional<Entry> evicted;
    if (positions_.size() == capacity_) {
      evicted = std::move(entries_.back());
      positions_.erase(evicted->first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, std::move(value));
    positions_.emplace(key, entries_.begin());
    return evicted;
  }

 private:
  size_t capacity_;
  std::list<Entry> entries_;
  std::unordered_map<Key, typename std::list<Entry>::iterator> positions_;
};

}  // namespace farpage
