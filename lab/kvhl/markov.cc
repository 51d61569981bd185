#include "lab/kvhl/markov.h"

#include <algorithm>
#include <functional>

namespace farpage::kvhl {

void Markov::on_access(const prefetch::Access& access) {
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

}  // namespace farpage::kvhl
