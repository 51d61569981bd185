#include "prefetch/page_heap.h"
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
    Seen& seen = seen_.at(access.page);
    seen.mass += access.mass;
    ++seen.accesses;
    if (top_.contains(access.page)) {
      top_.change(access.page, mass(access.page));
    } else if (rest_.contains(access.page)) {
      ranked_rest_.change(access.page, -mass(access.page));
      rest_.move_to_back(access.page);
    } else {
      return;
    }
    divide();
  }
  void on_insert(PageNumber page, uint64_t) override {
    add_to_rest(page);
    divide();
  }
  void on_evict(PageNumber page, uint64_t) override {
    if (top_.contains(page)) {
      top_.remove(page);
    } else {
      remove_from_rest(page);
    }
    divide();
  }
  PageNumber victim(uint64_t) override { return rest_.size() > 0 ? rest_.front() : top_.top(); }
  void set_aside(PageNumber page) override {
    if (top_.contains(page)) return top_.set_aside(page);
    rest_.set_aside(page);
    ranked_rest_.set_aside(page);
  }
  void put_back() override {
    size_t back = rest_.aside();
    top_.put_back();
    rest_.put_back();
    ranked_rest_.put_back();
    for (; back > 0; --back) divide();
  }

 private:
  struct Seen {
    double mass = 0;
    uint64_t accesses = 0;
  };

  double mass(PageNumber page) const {  // an access
    const Seen seen = seen_[page];
    return seen.accesses == 0 ? 0 : seen.mass / static_cast<double>(seen.accesses);
  }
  void add_to_rest(PageNumber page) {
    rest_.push_back(page);
    ranked_rest_.push(page, -mass(page));
  }
  void remove_from_rest(PageNumber page) {
    rest_.remove(page);
    ranked_rest_.remove(page);
  }
  // After one page has come, gone or changed.
  void divide() {
    if (most_top_ == 0 || ranked_rest_.size() == 0) return;
    const PageNumber best = ranked_rest_.top();
    if (top_.size() == most_top_) {
      const PageNumber least = top_.top();
      if (mass(best) <= mass(least)) return;
      top_.remove(least);
      add_to_rest(least);
    }
    remove_from_rest(best);
    top_.push(best, mass(best));
  }

  const size_t most_top_;
  PageHeap top_;
  PageHeap ranked_rest_;  // the most first
  PageList rest_;         // by use
  PerPage<Seen> seen_;
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
