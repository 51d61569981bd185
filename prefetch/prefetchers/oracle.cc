#include <algorithm>

#include "prefetch/per_page.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Oracle final : public Prefetcher {
 public:
  Oracle(const Future& future, uint64_t steps) : future_(future), steps_(steps) {
    for (uint64_t number = 0; number < future.accesses(); ++number) {
      if (future.next(number) == Future::kNever) ++pages_to_come_;
    }
  }

  void on_access(const Access& access) override {
    const auto begins = future_.step_begins();
    if (begun_ < begins.size() && access.number >= begins[begun_]) ++begun_;
    next_ = access.number + 1;
    if (future_.next(access.number) == Future::kNever) --pages_to_come_;
  }
  // Not so far that the last few of a trace's pages are looked for in all of it.
  size_t candidates(std::span<PageNumber> pages) override {
    ++asked_;
    const uint64_t end = std::min<uint64_t>(end_of_steps(), next_ + kAccessesAPage * pages.size());
    const size_t most = std::min<uint64_t>(pages.size(), pages_to_come_);
    size_t named = 0;
    for (uint64_t number = next_; number < end && named < most; ++number) {
      const PageNumber page = future_.page(number);
      if (named_.at(page) == asked_) continue;
      named_.at(page) = asked_;
      pages[named++] = page;
    }
    return named;
  }

 private:
  // Later pages would only take the room of those that are needed before them.
  uint64_t end_of_steps() const {
    const auto begins = future_.step_begins();
    return begins.size() - begun_ > steps_ ? begins[begun_ + steps_] : future_.accesses();
  }

  static constexpr uint64_t kAccessesAPage = 64;

  const Future& future_;
  const uint64_t steps_;
  size_t begun_ = 0;   // steps
  uint64_t next_ = 0;  // access
  uint64_t pages_to_come_ = 0;
  uint64_t asked_ = 0;
  PerPage<uint64_t> named_;  // when it was asked so often
};

}  // namespace

// 3PO's recorded tape.
PrefetcherInfo oracle() {
  return {.name = "oracle",
          .what = "knows what is to come, soonest first",
          .parameters = {{"steps", "how many it looks ahead", 2, 1, 1e9}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Oracle>(*setting.future, static_cast<uint64_t>(values[0]));
          },
          .sees_future = true};
}

}  // namespace farpage::prefetch
