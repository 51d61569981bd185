#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

#include "prefetch/page_heap.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"
#include "prefetch/ranking_pace.h"

namespace farpage::prefetch {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

class Lazy final : public Policy {
 public:
  Lazy(double threshold, double window_steps)
      : threshold_(threshold),
        window_steps_(static_cast<uint64_t>(window_steps)),
        pace_(window_steps_) {}

  void on_access(const Access& access) override {
    pace_.on_access();
    if (!first_step_) first_step_ = access.step;
    Activity& activity = activities_.at(access.page);
    if (activity.is_known && static_cast<double>(access.mass) < threshold_) return;
    if (!activity.is_known) {
      activity.first = access.step;
    } else if (access.step - activity.last > activity.longest_gap) {
      activity.longest_gap = access.step - activity.last;
      activity.worth_of_gap = 2 * sigmoid(-static_cast<double>(activity.longest_gap) - 1);
    }
    activity.is_known = true;
    activity.last = access.step;
    if (resident_.contains(access.page)) {
      resident_.change(access.page, activity_score(activity));
    }
  }
  void on_insert(PageNumber page, uint64_t) override {
    resident_.push(page, activity_score(activities_[page]));
  }
  void on_evict(PageNumber page, uint64_t) override { resident_.remove(page); }

  PageNumber victim(uint64_t step) override {
    const bool is_late = ranking_.empty() || pace_.is_window_over(step);
    // Else those that are set aside would not be in it.
    const bool is_whole = resident_.aside() == 0;
    if (is_late && is_whole && pace_.is_paid_for(resident_.size())) rank(step);
    while (!ranking_.empty()) {
      const auto& [importance, last, page] = ranking_.front();
      const Activity& activity = activities_[page];
      if (activity.last == last && resident_.contains(page)) return page;
      drop_first();
    }
    return resident_.top();
  }
  void set_aside(PageNumber page) override {
    if (!ranking_.empty()) {
      ranking_aside_.push_back(ranking_.front());
      drop_first();
    }
    resident_.set_aside(page);
  }
  void put_back() override {
    resident_.put_back();
    for (; !ranking_aside_.empty(); ranking_aside_.pop_back()) {
      ranking_.push_back(ranking_aside_.back());
      std::ranges::push_heap(ranking_, std::greater<>());
    }
  }

 private:
  struct Activity {
    bool is_known = false;
    uint64_t first = 0;  // its step
    uint64_t last = 0;   // its step
    uint64_t longest_gap = 0;
    double worth_of_gap = 0;  // the longest
  };
  using Ranked = std::tuple<double, uint64_t, PageNumber>;  // by importance; it was active last

  static double importance(const Activity& activity, uint64_t step) {
    if (activity.longest_gap == 0) return 0;
    const auto gap = static_cast<double>(activity.longest_gap);
    const auto since = static_cast<double>(step - activity.last);
    return 2 * sigmoid(-since / gap) + activity.worth_of_gap;
  }

  // So that those of steps that are timestamps differ as these do.
  double activity_score(const Activity& activity) const {
    return activity.is_known ? static_cast<double>(activity.last - *first_step_) : -1;
  }

  // All but the newest, as a heap with the least important first: few of them go before it is made
  // anew.
  void rank(uint64_t step) {
    ranking_.clear();
    for (size_t i = 0; i < resident_.size(); ++i) {
      const PageNumber page = resident_.page(i);
      const Activity& activity = activities_[page];
      if (step - activity.first < window_steps_) continue;
      ranking_.emplace_back(importance(activity, step), activity.last, page);
    }
    std::ranges::make_heap(ranking_, std::greater<>());
    pace_.on_ranked(step);
  }
  void drop_first() {
    std::ranges::pop_heap(ranking_, std::greater<>());
    ranking_.pop_back();
  }

  const double threshold_;
  const uint64_t window_steps_;
  std::optional<uint64_t> first_step_;
  PerPage<Activity> activities_;
  PageHeap resident_;            // by when they were active last
  std::vector<Ranked> ranking_;  // what became active since it was made is in it no more
  std::vector<Ranked> ranking_aside_;
  RankingPace pace_;
};

}  // namespace

// LazyEviction, with pages for tokens. MRI is the longest gap between a page's activations, of
// which its first access is one. A token is written in a step, so the last W of them are the pages
// first accessed in the last W steps. Where there is nothing else, the page goes that was active
// longest ago, and of several the one that came first.
PolicyInfo lazy() {
  return {
      .name = "lazy",
      .what =
          "ranked once in a window of steps: the page goes that is overdue, measured by the "
          "longest gap after which it ever came back",
      .parameters = {{"threshold", "the mass that makes a page active", 1e-4, 0, 1},
                     {"window", "in steps; pages first accessed in the last one stay", 16, 1, 1e6}},
      .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
        return std::make_unique<Lazy>(values[0], values[1]);
      },
      .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
