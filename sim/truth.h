#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "integrity/page_header.h"
#include "replay/page_content.h"
#include "sim/findings.h"

namespace farpage {

// The state of every page, without any checksum: the puts sent, the acknowledgements, and so the
// pages that a fetch that starts now may return (I1 and I2). Of two things that happened one after
// the other it knows so by the order in which it is told, whatever versions say.
class Truth {
 public:
  struct Bound {
    Version at_least = 0;  // the newest version that a put was acknowledged with
    Version above = 0;     // the newest one known when a remove was sent that is acknowledged now
    // When the latest put or remove was sent that is acknowledged now: a put that was acknowledged
    // before that has been replaced.
    uint64_t replaced_before = 0;
  };
  struct SentRemove {
    Version known = 0;
    uint64_t sent = 0;
  };

  // Numbers are never used twice, over all keys.
  uint64_t send_put(const PageKey& key) {
    Page& page = pages_[key];
    ++page.puts;
    puts_.emplace(++last_number_,
                  Put{key, ++order_, 0, std::max(page.bound.at_least, page.bound.above)});
    return last_number_;
  }
  std::optional<Finding> acknowledge_put(const PageKey& key, uint64_t number, Version version) {
    Page& page = pages_[key];
    Put& put = puts_.at(number);
    put.acknowledged = ++order_;
    page.bound.at_least = std::max(page.bound.at_least, version);
    page.bound.replaced_before = std::max(page.bound.replaced_before, put.sent);
    if (version <= put.before) {
      return went_back("a put was acknowledged as {:x}, and {:x} was there when it was sent",
                       version, put.before);
    }
    return learn(page, number, version);
  }

  SentRemove send_remove(const PageKey& key) { return {pages_[key].highest, ++order_}; }
  void acknowledge_remove(const PageKey& key, const SentRemove& remove) {
    Bound& bound = pages_[key].bound;
    bound.above = std::max(bound.above, remove.known);
    bound.replaced_before = std::max(bound.replaced_before, remove.sent);
  }

  uint64_t puts(const PageKey& key) { return pages_[key].puts; }
  Bound bound(const PageKey& key) { return pages_[key].bound; }
  // Nothing: no put has this number.
  std::optional<PageKey> key_of(uint64_t number) const {
    const auto found = puts_.find(number);
    return found == puts_.end() ? std::nullopt : std::optional(found->second.key);
  }

  // Judges a page that was ready, of a fetch that started when `bound` held. Nothing: it is right.
  std::optional<Finding> judge(const PageKey& key, const Bound& bound, Version version,
                               std::span<const std::byte> bytes) {
    const uint64_t number = page_put_number(bytes);
    const auto found = puts_.find(number);
    if (found == puts_.end() || !(found->second.key == key)) {
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
    if (const uint64_t at = found->second.acknowledged; at != 0 && at < bound.replaced_before) {
      return went_back("put {}, though a later put or remove was acknowledged", number);
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

  struct Put {
    PageKey key;
    uint64_t sent;          // when, in the order of all that was told
    uint64_t acknowledged;  // 0: not (yet)
    Version before;         // nothing older than this, or this itself, may be given to it
  };
  struct Page {
    Bound bound;
    Version highest = 0;  // acknowledged or read
    uint64_t puts = 0;
    std::map<Version, uint64_t> numbers;
    std::map<uint64_t, Version> versions;
  };

  static std::optional<Finding> learn(Page& page, uint64_t number, Version version) {
    page.highest = std::max(page.highest, version);
    const uint64_t known = page.numbers.emplace(version, number).first->second;
    if (known != number) {
      return went_back("version {:x} is of put {} and of put {}", version, known, number);
    }
    const Version first = page.versions.emplace(number, version).first->second;
    if (first != version) {
      return went_back("put {} has versions {:x} and {:x}", number, first, version);
    }
    return std::nullopt;
  }

  uint64_t last_number_ = 0;
  uint64_t order_ = 0;
  std::unordered_map<uint64_t, Put> puts_;
  std::unordered_map<PageKey, Page> pages_;
};

}  // namespace farpage
