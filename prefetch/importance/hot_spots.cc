#include "prefetch/importance/hot_spots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace farpage::prefetch {
namespace {

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

std::vector<PageNumber> most_looked_at(Masses masses, double share, uint64_t pages) {
  masses = summed(std::move(masses));
  if (masses.empty()) return {};
  const double wanted = std::ceil(share * static_cast<double>(pages));
  const size_t most = std::clamp<size_t>(static_cast<size_t>(wanted), 1, masses.size());
  const auto end = masses.begin() + static_cast<ptrdiff_t>(most);
  std::ranges::partial_sort(masses, end, [](const auto& one, const auto& other) {
    return std::pair(-one.first, one.second) < std::pair(-other.first, other.second);
  });
  std::vector<PageNumber> looked_at;
  for (auto each = masses.begin(); each != end; ++each) looked_at.push_back(each->second);
  return looked_at;
}

double jaccard(std::span<const PageNumber> one, std::span<const PageNumber> other) {
  std::vector<PageNumber> both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  const size_t either = one.size() + other.size() - both.size();
  return either == 0 ? 0 : static_cast<double>(both.size()) / static_cast<double>(either);
}

void HotSpots::add(PageNumber page, float mass) {
  if (!(mass > 0)) return;
  mass_.at(page) += static_cast<double>(mass);
  looked_at_in_.at(page) = queries_ + 1;
  pages_ = std::max(pages_, page + 1);
  query_.emplace_back(mass, page);
}

void HotSpots::end_query() {
  auto looked_at = most_looked_at(std::move(query_), share_, pages_);
  query_.clear();
  std::ranges::sort(looked_at);
  tops_.push_back(std::move(looked_at));
  if (tops_.size() > kRemembered) tops_.pop_front();
  ++queries_;
}

void HotSpots::on_forget(PageNumber page) {
  if (mass_[page] == 0) return;
  mass_.at(page) = 0;
  if (looked_at_in_[page] == queries_ + 1) {
    std::erase_if(query_, [&](const auto& each) { return each.second == page; });
  }
  for (auto& top : tops_) {
    const auto found = std::ranges::lower_bound(top, page);
    if (found != top.end() && *found == page) top.erase(found);
  }
}

std::vector<PageNumber> HotSpots::hot() const {
  if (queries_ < kQueries) return {};
  Masses masses;
  for (PageNumber page = 0; page < pages_; ++page) {
    if (mass_[page] > 0) masses.emplace_back(mass_[page], page);
  }
  return most_looked_at(std::move(masses), share_, pages_);
}

double HotSpots::overlap() const {
  auto all = hot();
  if (all.empty()) return 0;
  std::ranges::sort(all);
  double sum = 0;
  for (const auto& one : tops_) sum += jaccard(all, one);
  return sum / static_cast<double>(tops_.size());
}

}  // namespace farpage::prefetch
