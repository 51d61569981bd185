#include <set>
#include <utility>
#include <vector>

#include "prefetch/page_list.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// The resident pages in two parts: the top, and the rest, of which none has more mass.
class Attention final : public Policy {
 public:
  Attention(uint64_t budget_pages, double share)
      : most_top_(static_cast<size_t>(static_cast<double>(budget_pages) * share)) {}

  void on_access(const Access& access) override {
    const bool was_top = top_.erase(rank(access.page)) > 0;
    const bool was_rest = ranked_rest_.erase(rank(access.page)) > 0;
    Seen& seen = seen_.at(access.page);
    seen.mass += access.mass;
    ++seen.accesses;
    if (was_top) top_.insert(rank(access.page));
    if (was_rest) {
      ranked_rest_.insert(rank(access.page));
      rest_.move_to_back(access.page);
    }
    if (was_top || was_rest) divide();
  }
  void on_insert(PageNumber page, uint64_t) override {
    rest_.push_back(page);
    ranked_rest_.insert(rank(page));
    divide();
  }
  void on_evict(PageNumber page, uint64_t) override {
    if (top_.erase(rank(page)) == 0) {
      rest_.remove(page);
      ranked_rest_.erase(rank(page));
    }
    divide();
  }
  PageNumber victim(uint64_t) override {
    return rest_.size() > 0 ? rest_.front() : top_.begin()->second;
  }
  void set_aside(PageNumber page) override {
    if (top_.erase(rank(page)) > 0) return top_aside_.push_back(page);
    ranked_rest_.erase(rank(page));
    rest_.set_aside(page);
    rest_aside_.push_back(page);
  }
  void put_back() override {
    for (const PageNumber page : top_aside_) top_.insert(rank(page));
    top_aside_.clear();
    rest_.put_back();
    for (const PageNumber page : rest_aside_) ranked_rest_.insert(rank(page));
    for (; !rest_aside_.empty(); rest_aside_.pop_back()) divide();
  }

 private:
  using Rank = std::pair<double, PageNumber>;
  struct Seen {
    double mass = 0;
    uint64_t accesses = 0;
  };

  Rank rank(PageNumber page) const {
    const Seen seen = seen_[page];
    return {seen.accesses == 0 ? 0 : seen.mass / static_cast<double>(seen.accesses), page};
  }
  // After one page has come, gone or changed.
  void divide() {
    if (most_top_ == 0 || ranked_rest_.empty()) return;
    const Rank best = *ranked_rest_.rbegin();
    if (top_.size() == most_top_) {
      const Rank least = *top_.begin();
      if (best.first <= least.first) return;
      top_.erase(least);
      rest_.push_back(least.second);
      ranked_rest_.insert(least);
    }
    ranked_rest_.erase(best);
    rest_.remove(best.second);
    top_.insert(best);
  }

  const size_t most_top_;
  std::set<Rank> top_;
  std::set<Rank> ranked_rest_;
  PageList rest_;  // by use
  PerPage<Seen> seen_;
  std::vector<PageNumber> top_aside_;
  std::vector<PageNumber> rest_aside_;
};

}  // namespace

// DiffKV, with pages for tokens: what has the top share of the attention stays
// near, whatever is used of the others.
PolicyInfo attention() {
  return {.name = "attention",
          .what =
              "the pages with the most attention an access stay; of the others the one goes "
              "that was accessed longest ago",
          .parameters = {{"share", "of the budget for those with the most", 0.2, 0, 1}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<Attention>(setting.budget_pages, values[0]);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
