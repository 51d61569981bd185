#pragma once

#include <cstdint>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// How often each page was accessed, resident or not, and when last.
class Touches {
 public:
  void on_access(const Access& access) {
    Touch& touch = touches_.at(access.page);
    ++touch.count;
    touch.last_step = static_cast<int64_t>(access.step);
  }
  void on_forget(PageNumber page) { touches_.at(page) = {}; }
  uint64_t count(PageNumber page) const { return touches_[page].count; }
  int64_t last_step(PageNumber page) const { return touches_[page].last_step; }  // -1: never

 private:
  struct Touch {
    uint64_t count = 0;
    int64_t last_step = -1;
  };
  PerPage<Touch> touches_;
};

}  // namespace farpage::prefetch
