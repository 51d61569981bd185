#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "prefetch/page_generations.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Which pages come back soon after a page does, as it was seen: four of each are remembered, and
// those that follow no more make room. On one thread.
class Companions {
 public:
  struct Companion {
    PageNumber page = 0;
    uint16_t generation = 0;  // of its number
    uint16_t weight = 0;      // how often it followed, of late
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
  std::span<const Companion> of(PageNumber page) {
    if (page >= of_.size()) return {};
    drop_forgotten(of_.at(page));
    return of_[page];
  }
  // Another page has this number.
  void on_forget(PageNumber page) {
    generations_.on_forget(page);
    if (page < of_.size()) of_.at(page) = {};
    std::erase_if(recent_, [&](const Return& each) { return each.page == page; });
  }

 private:
  static constexpr size_t kRemembered = 16;  // returns
  struct Return {
    PageNumber page;
    uint64_t step;
  };
  using Four = std::array<Companion, 4>;

  void drop_forgotten(Four& four) const {
    for (Companion& each : four) {
      if (!generations_.is_still({each.page, each.generation})) each = {};
    }
  }
  // A stranger takes a weight from the one that follows most seldom, and its place when none is
  // left.
  void add(Four& four, PageNumber page) {
    drop_forgotten(four);
    const auto known = std::ranges::find_if(
        four, [&](const Companion& each) { return each.weight > 0 && each.page == page; });
    if (known != four.end()) {
      if (known->weight < UINT16_MAX) ++known->weight;
      return;
    }
    Companion& least = *std::ranges::min_element(four, {}, &Companion::weight);
    if (least.weight > 0 && --least.weight > 0) return;
    least = {page, generations_.now(page).generation, 1};
  }

  const uint64_t within_steps_;
  std::deque<Return> recent_;
  PerPage<Four> of_;
  PageGenerations generations_;
};

}  // namespace farpage::prefetch
