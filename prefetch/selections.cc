#include "prefetch/selections.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace farpage::prefetch {

double overlap_beyond_chance(std::span<const PageNumber> one, std::span<const PageNumber> other,
                             uint64_t pages) {
  const auto most = static_cast<double>(std::max(one.size(), other.size()));
  const double by_chance = most / static_cast<double>(pages);
  if (by_chance >= 1) return 1;  // all are selected
  std::vector<PageNumber> both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  const double shared = static_cast<double>(both.size()) / most;
  return std::max(0.0, (shared - by_chance) / (1 - by_chance));
}

void Selections::add(std::vector<PageNumber> selected, uint64_t pages) {
  if (!recent_.empty()) {
    double sum = 0;
    for (const auto& before : recent_) sum += overlap_beyond_chance(selected, before, pages);
    sum_ += sum / static_cast<double>(recent_.size());
    ++steps_;
  }
  recent_.push_back(std::move(selected));
  if (recent_.size() > kStepsBack) recent_.pop_front();
}

double Selections::stability() const {
  return steps_ == 0 ? 1 : sum_ / static_cast<double>(steps_);
}

}  // namespace farpage::prefetch
