#pragma once

#include <cstring>
#include <vector>

#include "base/random.h"
#include "sim/fault/page_read.h"

namespace farpage::fault {

// The pages that the last reads have brought: from where, and their payloads.
class LandedPages {
 public:
  struct Page {
    uint32_t region;
    uint64_t offset;
    std::vector<std::byte> payload;
  };

  void remember(const Operation& read) {
    const Slice& payload = payload_of(read);
    Page page = {read.remote.index, read.remote_offset,
                 std::vector<std::byte>(payload.data, payload.data + payload.bytes)};
    if (pages_.size() < kMost) {
      pages_.push_back(std::move(page));
    } else {
      pages_[next_++ % kMost] = std::move(page);
    }
  }

  // A payload as long as the one that this read has brought, and another one.
  const Page* draw_payload(const Operation& read, Random& random) const {
    const Slice& landed = payload_of(read);
    return draw(random, [&](const Page& page) {
      return page.payload.size() == landed.bytes &&
             std::memcmp(page.payload.data(), landed.data, landed.bytes) != 0;
    });
  }

  // Where else a read like this one has been.
  const Page* draw_place(const Operation& read, Random& random) const {
    return draw(random, [&](const Page& page) {
      return page.region == read.remote.index && page.offset != read.remote_offset &&
             page.payload.size() == payload_of(read).bytes;
    });
  }

 private:
  static constexpr size_t kMost = 32;

  template <typename Fits>
  const Page* draw(Random& random, const Fits& fits) const {
    if (pages_.empty()) return nullptr;
    const size_t first = random.below(pages_.size());
    for (size_t i = 0; i < pages_.size(); ++i) {
      const Page& page = pages_[(first + i) % pages_.size()];
      if (fits(page)) return &page;
    }
    return nullptr;
  }

  std::vector<Page> pages_;
  size_t next_ = 0;
};

}  // namespace farpage::fault
