#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "integrity/page_key.h"
#include "prefetch/page_list.h"

namespace farpage {

// The numbers by which prefetchers know pages, and the keys by which engines do: so many at one
// time, in memory that is taken at once. On one thread.
class PageNumbering {
 public:
  using PageNumber = prefetch::PageNumber;

  explicit PageNumbering(uint32_t most);

  std::optional<PageNumber> find(const PageKey& key) const;
  const PageKey& key(PageNumber page) const { return keys_[page]; }
  size_t size() const { return keys_.size(); }  // numbers that have been given

  void use(PageNumber page) { by_use_.move_to_back(page); }
  // The key's number; of one that is not known a new one, or that of the page that was used longest
  // ago and is not `needed(number)`, once it is `forgotten(number)`. Nothing: all are needed.
  template <typename Needed, typename Forgotten>
  std::optional<PageNumber> number(const PageKey& key, const Needed& needed,
                                   const Forgotten& forgotten) {
    if (const auto known = find(key)) {
      use(*known);
      return known;
    }
    if (keys_.size() < most_) return add(key);
    for (size_t tried = 0; tried < by_use_.size(); ++tried) {
      const PageNumber oldest = by_use_.front();
      use(oldest);
      if (needed(oldest)) continue;
      forgotten(oldest);
      rename(oldest, key);
      return oldest;
    }
    return std::nullopt;
  }

 private:
  static constexpr PageNumber kNone = UINT32_MAX;

  size_t home(const PageKey& key) const { return std::hash<PageKey>()(key) & (slots_.size() - 1); }
  size_t after(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  size_t slot_of(const PageKey& key) const;  // where it is, or would be
  PageNumber add(const PageKey& key);
  void rename(PageNumber page, const PageKey& key);

  const uint32_t most_;
  std::vector<PageKey> keys_;      // by number
  std::vector<PageNumber> slots_;  // by the key's hash, the next free one; half of them at the most
  prefetch::PageList by_use_;      // the oldest first
};

}  // namespace farpage
