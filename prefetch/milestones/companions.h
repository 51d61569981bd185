#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Which pages come back soon after a page does, as it was seen: four of each are remembered, and
// those that follow no more make room. On one thread.
class Companions {
 public:
  struct Companion {
    PageNumber page = 0;
    uint16_t weight = 0;  // how often it followed, of late
  };

  explicit Companions(uint64_t within_steps) : within_steps_(within_steps) {}

  // Steps never go back.
  void on_return(PageNumber page, uint64_t step) {
    while (!recent_.empty() && recent_.front().step + within_steps_ < step) recent_.pop_front();
    for (const Return& before : recent_) {
      if (before.page != page) add(of_.at(before.page), page);
    }
    recent_.push_back({page, step});
    if (recent_.size() > kRemembered) recent_.pop_front();
  }
  // Those with a weight of 0 are none.
  std::span<const Companion> of(PageNumber page) const {
    return page < of_.size() ? std::span<const Companion>(of_[page]) : std::span<const Companion>();
  }

 private:
  static constexpr size_t kRemembered = 16;  // returns
  struct Return {
    PageNumber page;
    uint64_t step;
  };
  using Four = std::array<Companion, 4>;

  // A stranger takes a weight from the one that follows most seldom, and its place when none is
  // left.
  static void add(Four& four, PageNumber page) {
    const auto known = std::ranges::find_if(
        four, [&](const Companion& each) { return each.weight > 0 && each.page == page; });
    if (known != four.end()) {
      if (known->weight < UINT16_MAX) ++known->weight;
      return;
    }
    Companion& least = *std::ranges::min_element(four, {}, &Companion::weight);
    if (least.weight > 0 && --least.weight > 0) return;
    least = {page, 1};
  }

  const uint64_t within_steps_;
  std::deque<Return> recent_;
  PerPage<Four> of_;
};

}  // namespace farpage::prefetch
