#include "lab/analyse/measures/top_mass.h"

#include <cmath>

namespace farpage::analyse {

void TopMass::add(prefetch::PageNumber number, float mass) {
  Page& page = pages_.at(number);
  (page.is_top ? top_ : rest_).erase({page.mass, number});
  page.mass += static_cast<double>(mass);
  (page.is_top ? top_ : rest_).insert({page.mass, number});
  const auto named = static_cast<double>(top_.size() + rest_.size());
  if (static_cast<double>(top_.size()) < std::ceil(share_ * named)) move(*rest_.rbegin(), true);
  if (top_.empty() || rest_.empty() || rest_.rbegin()->first <= top_.begin()->first) return;
  const Rank least = *top_.begin();
  const Rank most = *rest_.rbegin();
  move(least, false);
  move(most, true);
}

void TopMass::move(Rank rank, bool to_top) {
  (to_top ? rest_ : top_).erase(rank);
  (to_top ? top_ : rest_).insert(rank);
  pages_.at(rank.second).is_top = to_top;
}

}  // namespace farpage::analyse
