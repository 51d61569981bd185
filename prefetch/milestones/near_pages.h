#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Which pages are near, and which of them only as they were fetched ahead. On one thread.
class NearPages {
 public:
  bool contains(PageNumber page) const { return pages_[page].is_near; }
  // How likely the page is there: it is near, or was named after the step before, and may have come
  // by now. Of what was named and is not demanded it is seen how much comes; what is demanded comes
  // more often, as it needs no room of another page: half of the rest is added.
  double is_there(PageNumber page) const {
    const Page& of = pages_[page];
    if (of.is_near) return 1;
    return of.named_in + 1 == step_ ? (1 + came_share_) / 2 : 0;
  }
  // The page is demanded. Whether it comes from afar: it is not near, or is only as it was fetched
  // ahead.
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
  // The step is over, and these are named.
  void on_step(std::span<const PageNumber> named) {
    for (const PageNumber page : named_) {
      const Page& of = pages_[page];
      if (of.demanded_in != step_) came_share_ += kWeight * ((of.is_near ? 1 : 0) - came_share_);
    }
    named_.assign(named.begin(), named.end());
    for (const PageNumber page : named_) pages_.at(page).named_in = step_;
    ++step_;
  }

 private:
  static constexpr double kWeight = 1.0 / 256;

  struct Page {
    uint64_t demanded_in = 0;  // the last step
    uint64_t named_in = 0;     // likewise
    bool is_near = false;
    bool is_ahead = false;  // and not demanded since it came
  };

  PerPage<Page> pages_;
  uint64_t step_ = 1;
  std::vector<PageNumber> named_;  // after the step before
  double came_share_ = 1;  // of what was named and is not demanded, a moving average over pages
};

}  // namespace farpage::prefetch
