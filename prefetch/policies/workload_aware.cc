#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// Each victim looks at all of them; what names more means something else by a category.
constexpr size_t kMostCategories = 1'024;

// Of reuses that are exponentially distributed: a moving mean of the gaps.
class ReuseGaps {
 public:
  explicit ReuseGaps(double recent) : weight_(1 / recent) {}

  void add(double steps) {
    mean_ = known_ ? mean_ + weight_ * (steps - mean_) : steps, known_ = true;
  }
  bool known() const { return known_; }
  double mean() const { return mean_; }

 private:
  const double weight_;
  bool known_ = false;
  double mean_ = 0;
};

class WorkloadAware final : public Policy {
 public:
  WorkloadAware(double life_steps, double recent)
      : life_steps_(life_steps), recent_(recent), all_gaps_(recent) {}

  void on_access(const Access& access) override {
    if (access.step != step_) offset_ = 0;
    step_ = access.step;
    Last& last = last_.at(access.page);
    if (last.is_resident) categories_[last.category].queue.erase(key(access.page, last));
    if (last.is_known && access.step > last.step) {
      const auto gap = static_cast<double>(access.step - last.step);
      categories_[last.category].gaps.add(gap);
      all_gaps_.add(gap);
    }
    last = {access.step, offset_++, place_of(access.category), true, last.is_resident};
    if (last.is_resident) categories_[last.category].queue.insert(key(access.page, last));
  }
  void on_insert(PageNumber page, uint64_t) override {
    Last& last = last_.at(page);
    last.is_resident = true;
    categories_[last.category].queue.insert(key(page, last));
  }
  void on_evict(PageNumber page, uint64_t) override {
    Last& last = last_.at(page);
    last.is_resident = false;
    categories_[last.category].queue.erase(key(page, last));
  }

  PageNumber victim(uint64_t step) override {
    PageNumber chosen = 0;
    std::tuple<double, int64_t> least = {INFINITY, 0};
    for (const Category& each : categories_) {
      if (each.queue.empty()) continue;
      const auto& [last_step, later_first, page] = *each.queue.begin();
      const std::tuple priority = {reuse(each, step - last_step), later_first};
      if (priority >= least) continue;
      least = priority;
      chosen = page;
    }
    return chosen;
  }
  void set_aside(PageNumber page) override {
    const Last& last = last_[page];
    categories_[last.category].queue.erase(key(page, last));
    aside_.push_back(page);
  }
  void put_back() override {
    for (const PageNumber page : aside_) {
      categories_[last_[page].category].queue.insert(key(page, last_[page]));
    }
    aside_.clear();
  }

 private:
  // The page accessed longest ago first; of those of a step, the one that stands last in it.
  using Key = std::tuple<uint64_t, int64_t, PageNumber>;
  struct Category {
    ReuseGaps gaps;
    std::set<Key> queue;
  };
  struct Last {
    uint64_t step = 0;
    int64_t offset = 0;     // in its step
    uint32_t category = 0;  // its place
    bool is_known = false;
    bool is_resident = false;
  };

  static Key key(PageNumber page, const Last& last) { return {last.step, -last.offset, page}; }
  // Those that come when there are enough share the last place.
  uint32_t place_of(uint32_t category) {
    if (const auto known = places_.find(category); known != places_.end()) return known->second;
    if (categories_.size() == kMostCategories) return kMostCategories - 1;
    categories_.push_back({ReuseGaps(recent_), {}});
    return places_[category] = static_cast<uint32_t>(categories_.size() - 1);
  }

  // How likely a page that was not accessed for so long is in what is left of its life.
  double reuse(const Category& of, uint64_t age_steps) const {
    const ReuseGaps& gaps = of.gaps.known() ? of.gaps : all_gaps_;
    const double rate = 1 / (gaps.known() ? gaps.mean() : life_steps_);
    return std::exp(-rate * static_cast<double>(age_steps)) * (1 - std::exp(-rate * life_steps_));
  }

  const double life_steps_;
  const double recent_;
  ReuseGaps all_gaps_;  // for categories of which none is known yet
  std::vector<Category> categories_;
  std::unordered_map<uint32_t, uint32_t> places_;  // by category
  PerPage<Last> last_;
  std::vector<PageNumber> aside_;
  uint64_t step_ = 0;
  int64_t offset_ = 0;  // of the next access in its step
};

}  // namespace

// KVCache in the wild, with steps for seconds: one queue for each category, and only their heads
// are compared. The offset in a prompt is the place in a step.
PolicyInfo workload_aware() {
  return {.name = "workload_aware",
          .what = fmt::format(
              "the page goes that is least likely to be accessed again at its age, as those of its "
              "category lately were; of equal ones, the one farther back in its step; at most {} "
              "categories are told apart",
              kMostCategories),
          .parameters = {{"life", "in steps, after which nothing is expected", 1000, 1, 1e9},
                         {"recent", "how many reuses of a category tell of the next", 100, 1, 1e9}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<WorkloadAware>(values[0], values[1]);
          },
          .needs = {Signal::kCategory}};
}

}  // namespace farpage::prefetch
