#include "prefetch/prefetchers/markov.h"

#include <algorithm>
#include <memory>

#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {

void Markov::on_access(const Access& access) {
  if (last_) {
    std::vector<Successor>& successors = successors_.at(*last_);
    const auto found = std::ranges::find(successors, access.page, &Successor::page);
    if (found != successors.end()) {
      ++found->count;
    } else {
      successors.push_back({access.page, 1});
    }
  }
  last_ = access.page;
}

size_t Markov::candidates(std::span<PageNumber> pages) {
  if (!last_) return 0;
  std::vector<Successor> likely = successors_[*last_];
  std::ranges::stable_sort(likely, std::greater(), &Successor::count);
  size_t named = 0;
  for (const Successor& successor : likely) {
    if (named == pages.size() || successor.count < least_count_) break;
    pages[named++] = successor.page;
  }
  return named;
}

PrefetcherInfo markov() {
  return {.name = "markov",
          .what = "what has followed the page accessed last most often before",
          .parameters = {{"least", "how often it has to have followed", 2, 1, 1e9}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Markov>(static_cast<uint64_t>(values[0]));
          }};
}

}  // namespace farpage::prefetch
