#include "prefetch/importance/selections.h"

#include <algorithm>
#include <utility>

namespace farpage::prefetch {

double overlap_beyond_chance(std::span<const PageNumber> one, std::span<const PageNumber> other,
                             uint64_t pages) {
  const auto most = static_cast<double>(std::max(one.size(), other.size()));
  const double by_chance = most / static_cast<double>(pages);
  if (by_chance >= 1) return 1;  // all are selected
  uint64_t both = 0;
  for (size_t i = 0, j = 0; i < one.size() && j < other.size();) {
    const PageNumber of_one = one[i];
    const PageNumber of_other = other[j];
    // Without a branch on what is in them, which is unpredictable.
    both += of_one == of_other ? 1 : 0;
    i += of_one <= of_other ? 1 : 0;
    j += of_other <= of_one ? 1 : 0;
  }
  const double shared = static_cast<double>(both) / most;
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
