#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tier/client.h"
#include "transport/cuda/copy_queue.h"

namespace farpage {

// Some pages of a fetch into a GPU's memory, one behind the other: those that land in one block of
// the bounce memory.
struct Portion {
  enum class Page : uint8_t {
    kLanding,  // on its way to the block, or there, and not on its way to the GPU
    kCopying,
    kOver,  // it has its verdict
  };

  // Of the lane's fetch, with places in the block.
  std::vector<PageRequest> requests;
  std::vector<PageVerdict> verdicts;
  Fetch fetch;
  std::vector<Page> pages;
  uint32_t first = 0;  // its first page, in the whole fetch
  uint32_t next = 0;   // of the same fetch, by the number of its block
  // A batch of copies that is under way, or of which it is not yet said that it is over; how it is.
  bool has_copies = false;
  cuda::BatchState copies = cuda::BatchState::kUnderWay;

  void reserve(size_t most_pages) {
    requests.reserve(most_pages);
    verdicts.reserve(most_pages);
    pages.reserve(most_pages);
  }
  void begin(uint32_t first_page) {
    requests.clear();
    verdicts.clear();
    pages.clear();
    first = first_page;
  }
  void add(const PageRequest& request) {
    requests.push_back(request);
    verdicts.emplace_back();
    pages.push_back(Page::kLanding);
  }

  // Each page has its verdict, and nothing of it writes to the GPU's memory any more. The lane may
  // still write to the block.
  bool is_over() const {
    return !has_copies && std::ranges::all_of(pages, [](Page page) { return page == Page::kOver; });
  }
};

}  // namespace farpage
