#include "prefetch/importance/scorer.h"

#include <iterator>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "prefetch/page_heap.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {
namespace {

class SteadyPolicy final : public Policy {
 public:
  explicit SteadyPolicy(std::unique_ptr<SteadyScorer> scorer) : scorer_(std::move(scorer)) {}

  void on_access(const Access& access) override {
    scorer_->on_access(access);
    rank_again(access.page, access.step);
    for (const PageNumber page : scorer_->also_changed()) rank_again(page, access.step);
  }
  void on_insert(PageNumber page, uint64_t step) override {
    scorer_->on_insert(page, step);
    resident_.push(page, scorer_->score(page, step));
  }
  void on_evict(PageNumber page, uint64_t step) override {
    scorer_->on_evict(page, step);
    resident_.remove(page);
  }
  void on_forget(PageNumber page) override { scorer_->on_forget(page); }
  PageNumber victim(uint64_t) override { return resident_.top(); }
  void set_aside(PageNumber page) override { resident_.set_aside(page); }
  void put_back() override { resident_.put_back(); }

 private:
  void rank_again(PageNumber page, uint64_t step) {
    if (resident_.contains(page)) resident_.change(page, scorer_->score(page, step));
  }

  std::unique_ptr<SteadyScorer> scorer_;
  PageHeap resident_;
};

// Of pages with the same parts only the one accessed longest ago can be the lowest, and no page
// whose parts' sum is more than the drift above the lowest score found. An access that makes a page
// rank higher is heeded once the page might go: most have others before that.
class DriftingPolicy final : public Policy {
 public:
  explicit DriftingPolicy(std::unique_ptr<DriftingScorer> scorer) : scorer_(std::move(scorer)) {}

  void on_access(const Access& access) override {
    scorer_->on_access(access);
    Place& place = places_.at(access.page);
    if (!place.is_resident) return;
    if (scorer_->parts(access.page).sum() - place.at->sum > kLeastRise) {
      place.is_outdated = true;
    } else {
      move(access.page);
    }
  }
  void on_insert(PageNumber page, uint64_t step) override {
    scorer_->on_insert(page, step);
    Place& place = places_.at(page);
    place.inserted = ++inserts_;
    place.is_resident = true;
    place.is_outdated = false;
    place.at = ranked_.insert(rank_of(page)).first;
  }
  void on_evict(PageNumber page, uint64_t step) override {
    Place& place = places_.at(page);
    place.is_resident = false;
    ranked_.erase(place.at);
    scorer_->on_evict(page, step);
  }
  void on_forget(PageNumber page) override { scorer_->on_forget(page); }

  PageNumber victim(uint64_t step) override {
    auto best = ranked_.end();
    double lowest = 0;
    auto next = ranked_.begin();
    while (next != ranked_.end() && (best == ranked_.end() || next->sum - kDrift <= lowest)) {
      if (places_[next->page].is_outdated) {
        const auto after = std::next(next);
        const auto moved = move(next->page);
        next = after == ranked_.end() || *moved < *after ? moved : after;
        continue;
      }
      const double score = DriftingScorer::score(next->parts, next->last_access, step);
      if (best == ranked_.end() ||
          std::pair(score, next->inserted) < std::pair(lowest, best->inserted)) {
        best = next;
        lowest = score;
      }
      next = first_with_others(*next);
    }
    return best->page;
  }
  void set_aside(PageNumber page) override { aside_.push_back(ranked_.extract(places_[page].at)); }
  void put_back() override {
    for (Ranked::node_type& rank : aside_) {
      Place& place = places_.at(rank.value().page);
      place.at = ranked_.insert(std::move(rank)).position;
    }
    aside_.clear();
  }

 private:
  static constexpr double kDrift = 1.0 + 1e-6;
  static constexpr double kLeastRise = 1e-6;  // beyond what is lost in adding up
  struct Rank {
    double sum = 0;  // of the parts
    DriftingScorer::Parts parts;
    int64_t last_access = 0;
    uint64_t inserted = 0;
    PageNumber page = 0;

    bool operator<(const Rank& other) const {
      return std::tie(sum, parts.before, parts.after, last_access, inserted) <
             std::tie(other.sum, other.parts.before, other.parts.after, other.last_access,
                      other.inserted);
    }
  };

  using Ranked = std::set<Rank>;
  struct Place {
    Ranked::iterator at;  // of one that is resident; it stays where it is as others come and go
    uint64_t inserted = 0;
    bool is_resident = false;
    bool is_outdated = false;  // it ranks higher than there
  };

  Rank rank_of(PageNumber page) const {
    const DriftingScorer::Parts parts = scorer_->parts(page);
    return {parts.sum(), parts, scorer_->last_access(page), places_[page].inserted, page};
  }
  Ranked::iterator move(PageNumber page) {
    Place& place = places_.at(page);
    auto rank = ranked_.extract(place.at);
    rank.value() = rank_of(page);
    place.at = ranked_.insert(std::move(rank)).position;
    place.is_outdated = false;
    return place.at;
  }
  Ranked::iterator first_with_others(const Rank& rank) const {
    constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
    return ranked_.upper_bound({rank.sum, rank.parts, kLast, UINT64_MAX, 0});
  }

  std::unique_ptr<DriftingScorer> scorer_;
  Ranked ranked_;
  PerPage<Place> places_;
  std::vector<Ranked::node_type> aside_;
  uint64_t inserts_ = 0;
};

}  // namespace

std::unique_ptr<Policy> evict_by(std::unique_ptr<SteadyScorer> scorer) {
  return std::make_unique<SteadyPolicy>(std::move(scorer));
}

std::unique_ptr<Policy> evict_by(std::unique_ptr<DriftingScorer> scorer) {
  return std::make_unique<DriftingPolicy>(std::move(scorer));
}

}  // namespace farpage::prefetch
