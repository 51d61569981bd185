#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/runner/ticket.h"
#include "tier/client.h"
#include "transport/cuda/copies/copy_queue.h"
#include "transport/cuda/copies/page_gather.h"

namespace farpage {

// Some pages of a fetch into a GPU's memory, or of a put from there, one behind the other: those
// that go through one block of the bounce memory.
struct Portion {
  enum class Page : uint8_t {
    kMoving,   // between the nodes and the block, or in it
    kCopying,  // between the block and the GPU
    kHeld,     // it has its verdict, and a copy straight from a node may still write its place
    kOver,     // it has its verdict or result
  };

  // Of the lane's fetch, with places in the block.
  std::vector<PageRequest> requests;
  std::vector<PageVerdict> verdicts;
  Fetch fetch;
  // Of the put that begins once they lie in the block.
  std::vector<PutRequest> puts;
  Ticket put;
  std::vector<Page> pages;
  uint32_t first = 0;  // its first page, in the whole operation
  uint32_t next = 0;   // of the same operation, by the number of its block
  // A batch of copies that is under way, or of which it is not yet said that it is over; how it is.
  bool has_copies = false;
  cuda::BatchState copies = cuda::BatchState::kUnderWay;
  bool is_checked = false;  // by the device, where it can check a page of it
  // Takes the batch's pages to their blocks, or from there; both null: the copies do.
  cuda::PageScatter* scatter = nullptr;
  cuda::PageGather* gather = nullptr;
  uint32_t slot = 0;  // of that one

  void reserve(size_t most_pages) {
    requests.reserve(most_pages);
    verdicts.reserve(most_pages);
    puts.reserve(most_pages);
    pages.reserve(most_pages);
  }
  void begin(uint32_t first_page) {
    requests.clear();
    verdicts.clear();
    puts.clear();
    pages.clear();
    first = first_page;
  }
  void add(const PageRequest& request) {
    requests.push_back(request);
    verdicts.emplace_back();
    pages.push_back(Page::kMoving);
  }
  void add(const PutRequest& request) {
    puts.push_back(request);
    pages.push_back(Page::kCopying);
  }

  // Each page has its verdict or result, and nothing of it uses the GPU's memory any more. The lane
  // may still write to the block, and the put may still read it.
  bool is_over() const {
    return !has_copies && std::ranges::all_of(pages, [](Page page) { return page == Page::kOver; });
  }
  bool has_left_block() const { return fetch.released() && put.released(); }
};

}  // namespace farpage
