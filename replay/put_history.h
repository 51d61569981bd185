#pragma once

#include <cstdint>
#include <unordered_map>

#include "replay/page_content.h"

namespace farpage {

// Which puts of a page a fetch may find: the last that was acknowledged, or one that was sent after
// it and never acknowledged. The puts of a page are numbered from 1, and one is sent at a time.
class PutHistory {
 public:
  PutRange acceptable(uint64_t page) const {
    const auto found = puts_.find(page);
    if (found == puts_.end()) return {1, 0};
    return {found->second.acknowledged == 0 ? 1 : found->second.acknowledged, found->second.sent};
  }

  // The number of the page's next put.
  uint64_t send(uint64_t page) { return ++puts_[page].sent; }

  void acknowledge(uint64_t page, uint64_t number) { puts_[page].acknowledged = number; }

 private:
  struct Puts {
    uint64_t acknowledged = 0;
    uint64_t sent = 0;
  };
  std::unordered_map<uint64_t, Puts> puts_;
};

}  // namespace farpage
