#include "prefetch/scorer.h"

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
// whose parts' sum is more than the drift above the lowest score found.
class DriftingPolicy final : public Policy {
 public:
  explicit DriftingPolicy(std::unique_ptr<DriftingScorer> scorer) : scorer_(std::move(scorer)) {}

  void on_access(const Access& access) override {
    const bool is_resident = is_resident_[access.page];
    if (is_resident) resident_.erase(rank_[access.page]);
    scorer_->on_access(access);
    if (is_resident) add(access.page);
  }
  void on_insert(PageNumber page, uint64_t step) override {
    scorer_->on_insert(page, step);
    is_resident_.at(page) = true;
    inserted_.at(page) = ++inserts_;
    add(page);
  }
  void on_evict(PageNumber page, uint64_t step) override {
    resident_.erase(rank_[page]);
    is_resident_.at(page) = false;
    scorer_->on_evict(page, step);
  }

  PageNumber victim(uint64_t step) override {
    auto best = resident_.begin();
    double lowest = scorer_->score(best->page, step);
    auto next = first_with_others(*best);
    while (next != resident_.end() && next->sum - kDrift <= lowest) {
      const double score = scorer_->score(next->page, step);
      if (std::pair(score, inserted_[next->page]) < std::pair(lowest, inserted_[best->page])) {
        best = next;
        lowest = score;
      }
      next = first_with_others(*next);
    }
    return best->page;
  }
  void set_aside(PageNumber page) override {
    resident_.erase(rank_[page]);
    aside_.push_back(page);
  }
  void put_back() override {
    for (const PageNumber page : aside_) resident_.insert(rank_[page]);
    aside_.clear();
  }

 private:
  static constexpr double kDrift = 1.0 + 1e-6;
  struct Rank {
    double sum = 0;     // of the parts
    double before = 0;  // the first of them
    double after = 0;
    int64_t last_access = 0;
    uint64_t inserted = 0;
    PageNumber page = 0;

    bool operator<(const Rank& other) const {
      return std::tie(sum, before, after, last_access, inserted) <
             std::tie(other.sum, other.before, other.after, other.last_access, other.inserted);
    }
  };

  void add(PageNumber page) {
    const DriftingScorer::Parts parts = scorer_->parts(page);
    const Rank rank = {parts.sum(),     parts.before, parts.after, scorer_->last_access(page),
                       inserted_[page], page};
    rank_.at(page) = rank;
    resident_.insert(rank);
  }
  std::set<Rank>::const_iterator first_with_others(const Rank& rank) const {
    constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
    return resident_.upper_bound({rank.sum, rank.before, rank.after, kLast, UINT64_MAX, 0});
  }

  std::unique_ptr<DriftingScorer> scorer_;
  std::set<Rank> resident_;
  PerPage<Rank> rank_;
  PerPage<uint64_t> inserted_;
  PerPage<uint8_t> is_resident_;
  std::vector<PageNumber> aside_;
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
