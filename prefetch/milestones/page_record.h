#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "prefetch/access.h"
#include "prefetch/milestones/segmenter.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// The record of a page from its accesses. Times are turns of its head: steps in which that demands
// anything, counted from 1. Where a step is a layer's, a head has a turn a token. Its head is the
// one that demanded it first.
struct PageRecord {
  uint64_t first_turn = 0;
  uint64_t last_turn = 0;
  uint64_t last_gap = 0;     // between its last two visits
  uint64_t longest_gap = 0;  // of all of these (LazyEviction's MRI)
  uint32_t visits = 0;       // runs of accesses, with absences of more than kAwayTurns between them
  uint32_t head = 0;         // through all layers
  uint32_t block = 0;        // its place among its head's pages
  uint32_t segment = 0;      // in which it was written
  Mark phase = Mark::kNone;  // likewise
  uint32_t tokens = 0;       // that were written while it was its head's newest page
  float entropy = 0;         // of these, the mean
  float margin = 0;
  float mass = 0;  // a moving average over its accesses
};

// The records of all pages, and which page of a head is which. On one thread.
class PageRecords {
 public:
  static constexpr uint64_t kAwayTurns = 4;
  static constexpr PageNumber kNone = UINT32_MAX;

  // There may be more heads, which are taken as they come.
  explicit PageRecords(const HeadLayout& layout) : heads_(layout.all()) {}

  // Whether the page came back with it after an absence. Steps are counted from 1, as they come.
  bool on_access(const Access& access, uint64_t step, const Segmenter& segmenter);
  // Another page has this number.
  void on_forget(PageNumber page);
  const PageRecord& operator[](PageNumber page) const { return records_[page]; }
  uint64_t turns(uint32_t head) const { return heads_[head].turns; }
  // kNone where there is none.
  PageNumber page_of(uint32_t head, uint32_t block) const;
  // The page that another head demanded first in the step in which this page was new, which holds
  // the same tokens if both were written then: heads need not go through older pages in the same
  // order.
  PageNumber same_of(PageNumber page, uint32_t head) const;

 private:
  struct Block {
    uint64_t new_in = 0;  // its step
    uint32_t nth = 0;     // of those that were new in it
    PageNumber page = kNone;

    bool is_same(const Block& other) const { return new_in == other.new_in && nth == other.nth; }
    bool is_before(const Block& other) const {
      return std::pair(new_in, nth) < std::pair(other.new_in, other.nth);
    }
  };
  struct Head {
    uint64_t step = 0;  // of its last turn
    uint64_t turns = 0;
    PageNumber newest = kNone;
    std::vector<Block> blocks = {};  // in order
    size_t forgotten = 0;            // of these
  };

  void add(const Access& access, Head& head, uint64_t step, const Segmenter& segmenter);
  void drop_forgotten(Head& head);

  PerPage<PageRecord> records_;
  std::vector<Head> heads_;
};

}  // namespace farpage::prefetch
