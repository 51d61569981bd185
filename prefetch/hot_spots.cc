#include "prefetch/hot_spots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace farpage::prefetch {
namespace {

using Masses = std::vector<std::pair<double, PageNumber>>;

// A page once, with all of its mass.
Masses summed(Masses masses) {
  std::ranges::sort(masses, {}, &Masses::value_type::second);
  Masses each_once;
  for (const auto& [mass, page] : masses) {
    if (each_once.empty() || each_once.back().second != page) each_once.emplace_back(0, page);
    each_once.back().first += mass;
  }
  return each_once;
}

}  // namespace

void HotSpots::add(PageNumber page, float mass) {
  if (!(mass > 0)) return;
  mass_.at(page) += static_cast<double>(mass);
  pages_ = std::max(pages_, page + 1);
  query_.emplace_back(mass, page);
}

void HotSpots::end_query() {
  auto looked_at = top(summed(std::move(query_)));
  query_.clear();
  std::ranges::sort(looked_at);
  tops_.push_back(std::move(looked_at));
  if (tops_.size() > kRemembered) tops_.pop_front();
  ++queries_;
}

std::vector<PageNumber> HotSpots::hot() const {
  if (queries_ < kQueries) return {};
  Masses masses;
  for (PageNumber page = 0; page < pages_; ++page) {
    if (mass_[page] > 0) masses.emplace_back(mass_[page], page);
  }
  return top(std::move(masses));
}

std::vector<PageNumber> HotSpots::top(Masses masses) const {
  if (masses.empty()) return {};
  const double wanted = std::ceil(share_ * static_cast<double>(pages_));
  const size_t most = std::clamp<size_t>(static_cast<size_t>(wanted), 1, masses.size());
  const auto end = masses.begin() + static_cast<ptrdiff_t>(most);
  std::ranges::partial_sort(masses, end, [](const auto& one, const auto& other) {
    return std::pair(-one.first, one.second) < std::pair(-other.first, other.second);
  });
  std::vector<PageNumber> pages;
  for (auto each = masses.begin(); each != end; ++each) pages.push_back(each->second);
  return pages;
}

double HotSpots::overlap() const {
  auto all = hot();
  if (all.empty()) return 0;
  std::ranges::sort(all);
  double sum = 0;
  for (const auto& one : tops_) {
    std::vector<PageNumber> both;
    std::ranges::set_intersection(all, one, std::back_inserter(both));
    const size_t either = all.size() + one.size() - both.size();
    sum += static_cast<double>(both.size()) / static_cast<double>(either);
  }
  return sum / static_cast<double>(tops_.size());
}

}  // namespace farpage::prefetch
