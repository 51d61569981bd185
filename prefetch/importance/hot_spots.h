#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "prefetch/access.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Masses of pages, a page as often as it was looked at.
using Masses = std::vector<std::pair<double, PageNumber>>;
// The pages with the most mass, each page's summed, those named first before others of as much: a
// share of `pages`, at least one, at most those that have any; the most first.
std::vector<PageNumber> most_looked_at(Masses masses, double share, uint64_t pages);
// The Jaccard index of two sets of pages, in the order of their numbers; 0 of none.
double jaccard(std::span<const PageNumber> one, std::span<const PageNumber> other);

// Pages that many queries of a context look at, whatever they ask: what can be brought before the
// first one. On one thread.
class HotSpots {
 public:
  static constexpr uint64_t kQueries = 50;   // before anything is said
  static constexpr size_t kRemembered = 64;  // queries, for the overlap

  // `share`: of the pages, those with the most attention are hot, at least one.
  explicit HotSpots(double share) : share_(share) {}

  void add(PageNumber page, float mass);  // of the current query
  void end_query();
  // Another page has this number.
  void on_forget(PageNumber page);

  uint64_t queries() const { return queries_; }
  // Those that all queries together looked at most, the most first; nothing before kQueries.
  std::vector<PageNumber> hot() const;
  // The mean Jaccard index of these and what each of the last queries looked at most, 0 to 1: how
  // far they can be trusted.
  double overlap() const;

 private:
  const double share_;
  PerPage<double> mass_;
  PerPage<uint64_t> looked_at_in_;  // the last query, counted from 1
  PageNumber pages_ = 0;
  Masses query_;
  uint64_t queries_ = 0;
  std::deque<std::vector<PageNumber>> tops_;  // of the last queries, in the order of their numbers
};

}  // namespace farpage::prefetch
