#include <algorithm>

#include "base/random.h"
#include "prefetch/per_page.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class RandomSeen final : public Prefetcher {
 public:
  explicit RandomSeen(double seed) : random_(static_cast<uint64_t>(seed)) {}

  void on_access(const Access& access) override {
    seen_ = std::max<uint64_t>(seen_, access.page + uint64_t{1});
  }
  size_t candidates(std::span<PageNumber> pages) override {
    ++asked_;
    size_t named = 0;
    for (size_t draw = 0; draw < pages.size() && seen_ > 0; ++draw) {
      const auto page = static_cast<PageNumber>(random_.below(seen_));
      if (named_.at(page) == asked_) continue;
      named_.at(page) = asked_;
      pages[named++] = page;
    }
    return named;
  }

 private:
  Random random_;
  uint64_t seen_ = 0;  // pages are numbered as they are first named
  uint64_t asked_ = 0;
  PerPage<uint64_t> named_;  // when it was asked so often
};

}  // namespace

PrefetcherInfo random_seen() {
  return {.name = "random",
          .what = "any pages that were accessed before: what accuracy is worth more than",
          .parameters = {{"seed", "of the draws", 1, 0, 1e15}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<RandomSeen>(values[0]);
          }};
}

}  // namespace farpage::prefetch
