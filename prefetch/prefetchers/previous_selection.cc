#include <algorithm>
#include <deque>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class PreviousSelection final : public Prefetcher {
 public:
  explicit PreviousSelection(double steps) : most_steps_(static_cast<size_t>(steps)) {}

  void on_access(const Access& access) override {
    if (steps_.empty() || access.step != step_) {
      step_ = access.step;
      steps_.emplace_front();
      if (steps_.size() > most_steps_) steps_.pop_back();
    }
    steps_.front().push_back(access.page);
  }
  size_t candidates(std::span<PageNumber> pages) override {
    ++asked_;
    size_t named = 0;
    for (const auto& step : steps_) {
      for (const PageNumber page : step) {
        if (named == pages.size()) return named;
        if (named_.at(page) == asked_) continue;
        named_.at(page) = asked_;
        pages[named++] = page;
      }
    }
    return named;
  }

 private:
  const size_t most_steps_;
  uint64_t step_ = 0;
  std::deque<std::vector<PageNumber>> steps_;  // what was selected, the newest first
  uint64_t asked_ = 0;
  PerPage<uint64_t> named_;  // when it was asked so often
};

}  // namespace

// FreeKV's speculation, and its correction: what a step selects takes the place of what was
// expected of it, and what was not expected is demanded.
PrefetcherInfo previous_selection() {
  return {.name = "previous_selection",
          .what = "what the last steps selected is selected again, the newest first",
          .parameters = {{"steps", "how many of them", 2, 1, 1000}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<PreviousSelection>(values[0]);
          }};
}

}  // namespace farpage::prefetch
