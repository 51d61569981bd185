#pragma once

#include <cstdint>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// A page's number, and which of the pages it is that had it, one after the other.
struct NumberedPage {
  PageNumber number = 0;
  uint16_t generation = 0;  // that it comes round again is of no consequence
};

// Numbers are given to other pages (Prefetcher::on_forget). A holder that cannot drop them cheaply
// keeps their generation, and compares it before each use. On one thread.
class PageGenerations {
 public:
  NumberedPage now(PageNumber page) const { return {page, of_[page]}; }
  bool is_still(const NumberedPage& page) const { return of_[page.number] == page.generation; }
  void on_forget(PageNumber page) { ++of_.at(page); }

 private:
  PerPage<uint16_t> of_;
};

}  // namespace farpage::prefetch
