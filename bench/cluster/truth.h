#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "bench/cluster/findings.h"
#include "bench/page_content.h"
#include "integrity/page_header.h"

namespace farpage {

// What is known of every page without asking any checksum: which puts were sent, what was
// acknowledged, and so what a fetch that starts now may return (I1 and I2).
class Truth {
 public:
  struct Bound {
    Version at_least = 0;  // the newest version that a put was acknowledged with
    Version above = 0;     // the newest one known when a remove was sent that is acknowledged now
  };

  // Numbers are never used twice, over all keys.
  uint64_t send_put(const PageKey& key) {
    sent_.emplace(++last_number_, key);
    ++pages_[key].puts;
    return last_number_;
  }
  std::optional<Finding> acknowledge_put(const PageKey& key, uint64_t number, Version version) {
    Page& page = pages_[key];
    page.bound.at_least = std::max(page.bound.at_least, version);
    return learn(page, number, version);
  }

  Version send_remove(const PageKey& key) { return pages_[key].highest; }
  uint64_t puts(const PageKey& key) { return pages_[key].puts; }
  void acknowledge_remove(const PageKey& key, Version known_when_sent) {
    Version& above = pages_[key].bound.above;
    above = std::max(above, known_when_sent);
  }

  Bound bound(const PageKey& key) { return pages_[key].bound; }

  // Judges a page that was ready, of a fetch that started when `bound` held. Nothing: it is right.
  std::optional<Finding> judge(const PageKey& key, const Bound& bound, Version version,
                               std::span<const std::byte> bytes) {
    const uint64_t number = page_put_number(bytes);
    const auto found = sent_.find(number);
    if (found == sent_.end() || !(found->second == key)) {
      return wrong_bytes("the bytes name put {}, which is none of this key", number);
    }
    if (const uint64_t wrong = count_wrong_bytes(bytes, key, {number, number}); wrong > 0) {
      return wrong_bytes("{} wrong bytes in put {}", wrong, number);
    }
    if (version < bound.at_least) {
      return went_back("version {:x} after {:x} was acknowledged", version, bound.at_least);
    }
    if (version <= bound.above) {
      return went_back("version {:x} after a remove of {:x} was acknowledged", version,
                       bound.above);
    }
    return learn(pages_[key], number, version);
  }

 private:
  template <typename... Args>
  static Finding wrong_bytes(fmt::format_string<Args...> sentence, Args&&... args) {
    return {FindingKind::kWrongBytes, fmt::format(sentence, std::forward<Args>(args)...)};
  }
  template <typename... Args>
  static Finding went_back(fmt::format_string<Args...> sentence, Args&&... args) {
    return {FindingKind::kWentBack, fmt::format(sentence, std::forward<Args>(args)...)};
  }

  struct Page {
    Bound bound;
    Version highest = 0;  // acknowledged or read
    uint64_t puts = 0;
    std::map<Version, uint64_t> numbers;
  };

  static std::optional<Finding> learn(Page& page, uint64_t number, Version version) {
    page.highest = std::max(page.highest, version);
    const auto known = page.numbers.emplace(version, number).first;
    if (known->second == number) return std::nullopt;
    return went_back("version {:x} is of put {} and of put {}", version, known->second, number);
  }

  uint64_t last_number_ = 0;
  std::unordered_map<uint64_t, PageKey> sent_;
  std::unordered_map<PageKey, Page> pages_;
};

}  // namespace farpage
