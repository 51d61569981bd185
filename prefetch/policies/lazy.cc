#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

class Lazy final : public Policy {
 public:
  Lazy(double threshold, double window_steps)
      : threshold_(threshold), window_steps_(static_cast<uint64_t>(window_steps)) {}

  void on_access(const Access& access) override {
    Activity& activity = activities_.at(access.page);
    if (activity.is_known && static_cast<double>(access.mass) < threshold_) return;
    if (activity.is_known) {
      activity.longest_gap = std::max(activity.longest_gap, access.step - activity.last);
    }
    if (activity.is_resident) resident_.erase({activity.last, access.page});
    activity.is_known = true;
    activity.last = access.step;
    if (activity.is_resident) resident_.emplace(activity.last, access.page);
  }
  void on_insert(PageNumber page, uint64_t) override {
    Activity& activity = activities_.at(page);
    activity.is_resident = true;
    resident_.emplace(activity.last, page);
  }
  void on_evict(PageNumber page, uint64_t) override {
    Activity& activity = activities_.at(page);
    activity.is_resident = false;
    resident_.erase({activity.last, page});
  }

  PageNumber victim(uint64_t step) override {
    if (ranking_.empty() || step >= ranked_at_ + window_steps_) rank(step);
    while (!ranking_.empty()) {
      const PageNumber page = ranking_.back();
      const Activity& activity = activities_[page];
      if (activity.is_resident && is_idle(activity.last, step)) return page;
      ranking_.pop_back();
    }
    return resident_.begin()->second;
  }

 private:
  struct Activity {
    bool is_known = false;
    bool is_resident = false;
    uint64_t last = 0;  // its step
    uint64_t longest_gap = 0;
  };

  bool is_idle(uint64_t last, uint64_t step) const { return last + window_steps_ <= step; }

  double importance(const Activity& activity, uint64_t step) const {
    if (activity.longest_gap == 0) return 0;
    const auto gap = static_cast<double>(activity.longest_gap);
    const auto since = static_cast<double>(step - activity.last);
    return 2 * sigmoid(-since / gap) + 2 * sigmoid(-gap - 1);
  }

  // What was not active within the window, the least important last.
  void rank(uint64_t step) {
    std::vector<std::tuple<double, uint64_t, PageNumber>> idle;
    for (const auto& [last, page] : resident_) {
      if (!is_idle(last, step)) break;
      idle.emplace_back(importance(activities_[page], step), last, page);
    }
    std::ranges::sort(idle, std::greater<>());
    ranking_.clear();
    for (const auto& each : idle) ranking_.push_back(std::get<PageNumber>(each));
    ranked_at_ = step;
  }

  const double threshold_;
  const uint64_t window_steps_;
  PerPage<Activity> activities_;
  std::set<std::pair<uint64_t, PageNumber>> resident_;  // by when they were active last
  std::vector<PageNumber> ranking_;
  uint64_t ranked_at_ = 0;
};

}  // namespace

// LazyEviction, with pages for tokens. MRI is the longest gap between a page's
// activations; where all were active within the window, the one goes that was so longest ago.
PolicyInfo lazy() {
  return {.name = "lazy",
          .what =
              "ranked once in a window of steps: the page goes that is overdue, measured by the "
              "longest gap after which it ever came back",
          .parameters = {{"threshold", "the mass that makes a page active", 1e-4, 0, 1},
                         {"window", "in steps; what was active in the last one stays", 16, 1, 1e6}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<Lazy>(values[0], values[1]);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
