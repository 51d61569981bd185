#pragma once

#include <cstdint>
#include <vector>

#include "prefetch/access.h"
#include "prefetch/milestones/segmenter.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// What is known of a page from its accesses. Steps are counted from 1, as they come.
struct PageRecord {
  uint64_t first_step = 0;
  uint64_t last_step = 0;
  uint64_t last_gap = 0;     // steps between its last two visits
  uint64_t longest_gap = 0;  // of all of these (LazyEviction's MRI)
  uint32_t visits = 0;       // runs of accesses, with absences of more than kAwaySteps between them
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
  static constexpr uint64_t kAwaySteps = 4;
  static constexpr PageNumber kNone = UINT32_MAX;

  explicit PageRecords(const HeadLayout& layout) : pages_of_(layout.all()) {}

  // Whether the page came back with it after an absence.
  bool on_access(const Access& access, uint64_t step, const Segmenter& segmenter);
  const PageRecord& operator[](PageNumber page) const { return records_[page]; }
  // kNone where there is none.
  PageNumber page_of(uint32_t head, uint32_t block) const;

 private:
  PerPage<PageRecord> records_;
  std::vector<std::vector<PageNumber>> pages_of_;  // by head, in the order of their blocks
};

}  // namespace farpage::prefetch
