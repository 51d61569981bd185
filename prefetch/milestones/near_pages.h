#pragma once

#include <cstdint>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Which pages are near, and which of them only as they were fetched ahead. On one thread.
class NearPages {
 public:
  bool contains(PageNumber page) const { return pages_[page].is_near; }
  // The page is demanded. Whether it comes from far memory: it is not near, or is only as it was
  // fetched ahead.
  bool on_access(PageNumber page) {
    Page& of = pages_.at(page);
    const bool is_from_afar = !of.is_near || of.is_ahead;
    of.is_ahead = false;
    of.demanded_in = step_;
    return is_from_afar;
  }
  void on_insert(PageNumber page) {
    Page& of = pages_.at(page);
    of.is_near = true;
    of.is_ahead = of.demanded_in != step_;
  }
  void on_evict(PageNumber page) {
    Page& of = pages_.at(page);
    of.is_near = of.is_ahead = false;
  }
  // Another page has this number.
  void on_forget(PageNumber page) { pages_.at(page) = {}; }
  // In this step.
  bool is_demanded(PageNumber page) const { return pages_[page].demanded_in == step_; }
  // The step is over.
  void on_step() { ++step_; }

 private:
  struct Page {
    uint64_t demanded_in = 0;  // the last step
    bool is_near = false;
    bool is_ahead = false;  // and not demanded since it came
  };

  PerPage<Page> pages_;
  uint64_t step_ = 1;
};

}  // namespace farpage::prefetch
