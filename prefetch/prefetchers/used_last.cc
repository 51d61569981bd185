#include <algorithm>

#include "prefetch/page_list.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class UsedLast final : public Prefetcher {
 public:
  explicit UsedLast(double pages) : most_(static_cast<size_t>(pages)) {}

  void on_access(const Access& access) override {
    if (by_use_.contains(access.page)) by_use_.remove(access.page);
    by_use_.push_back(access.page);
    if (by_use_.size() > most_) by_use_.remove(by_use_.front());
  }
  void on_insert(PageNumber page) override { is_near_.at(page) = true; }
  void on_evict(PageNumber page) override { is_near_.at(page) = false; }
  void on_forget(PageNumber page) override {
    if (by_use_.contains(page)) by_use_.remove(page);
    is_near_.at(page) = false;
  }
  size_t candidates(std::span<PageNumber> pages) override {
    size_t named = 0;
    auto page = by_use_.size() == 0 ? std::nullopt : std::optional(by_use_.back());
    for (; page && named < pages.size(); page = by_use_.before(*page)) {
      if (!is_near_[*page]) pages[named++] = *page;
    }
    return named;
  }

 private:
  const size_t most_;
  PageList by_use_;  // the newest is last
  PerPage<uint8_t> is_near_;
};

}  // namespace

PrefetcherInfo used_last() {
  return {.name = "recency",
          .what = "what was used last and is not near, the newest first",
          .parameters = {{"pages", "of those used last, among which it looks", 4096, 1, 1e9}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<UsedLast>(values[0]);
          }};
}

}  // namespace farpage::prefetch
