#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "prefetch/importance/selections.h"
#include "prefetch/registry/registry.h"

namespace farpage::prefetch {
namespace {

constexpr uint64_t kWindow = 5;  // steps
constexpr size_t kRankedOfAnAccess = 2;

// A look at every resident page, in the simplest way.
class Model {
 public:
  virtual ~Model() = default;
  virtual void on_access(const Access& access) = 0;
  // By what goes first, of which so many are looked at.
  virtual std::vector<PageNumber> ranked(const std::vector<PageNumber>& resident, uint64_t step,
                                         size_t looked_at) = 0;
  virtual void on_insert(PageNumber) {}

 protected:
  bool is_due(uint64_t step, size_t ranked) const {
    return step - ranked_at_ >= kWindow && accesses_ >= ranked / kRankedOfAnAccess;
  }
  uint64_t ranked_at_ = 0;
  uint64_t accesses_ = 0;
};

class LazyModel final : public Model {
 public:
  void on_access(const Access& access) override {
    ++accesses_;
    const auto [at, is_new] = pages_.try_emplace(access.page);
    Page& page = at->second;
    if (!is_new && access.mass < 0.5F) return;
    if (is_new) page.first = access.step;
    if (!is_new) page.gap = std::max(page.gap, access.step - page.last);
    page.last = access.step;
  }
  void on_insert(PageNumber page) override { pages_[page].inserted = ++inserts_; }
  std::vector<PageNumber> ranked(const std::vector<PageNumber>& resident, uint64_t step,
                                 size_t looked_at) override {
    if ((ranking_.empty() || step - ranked_at_ >= kWindow) &&
        accesses_ >= resident.size() / kRankedOfAnAccess) {
      rank(resident, step);
    }
    // Pages that became active or went are struck off as the search meets them.
    std::vector<PageNumber> first;
    for (size_t i = 0; i < ranking_.size() && first.size() < looked_at;) {
      const auto [worth, last, page] = ranking_[i];
      if (pages_[page].last == last && std::ranges::count(resident, page)) {
        first.push_back(page);
        ++i;
      } else {
        ranking_.erase(ranking_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    std::vector<std::tuple<uint64_t, uint64_t, PageNumber>> rest;
    for (const PageNumber page : resident) {
      if (std::ranges::count(first, page)) continue;
      rest.emplace_back(pages_[page].last, pages_[page].inserted, page);
    }
    std::ranges::sort(rest);
    for (const auto& each : rest) first.push_back(std::get<2>(each));
    return first;
  }

 private:
  struct Page {
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t gap = 0;
    uint64_t inserted = 0;
  };
  void rank(const std::vector<PageNumber>& resident, uint64_t step) {
    ranked_at_ = step;
    accesses_ = 0;
    ranking_.clear();
    for (const PageNumber number : resident) {
      const Page& page = pages_[number];
      if (step - page.first < kWindow) continue;
      const auto gap = static_cast<double>(page.gap);
      const auto since = static_cast<double>(step - page.last);
      const double worth =
          page.gap == 0 ? 0 : 2 / (1 + std::exp(since / gap)) + 2 / (1 + std::exp(gap + 1));
      ranking_.emplace_back(worth, page.last, number);
    }
    std::ranges::sort(ranking_);
  }

  std::map<PageNumber, Page> pages_;
  std::vector<std::tuple<double, uint64_t, PageNumber>> ranking_;
  uint64_t inserts_ = 0;
};

class StabilityModel final : public Model {
 public:
  void on_access(const Access& access) override {
    if (access.step != step_) end_step();
    if (is_due(access.step, heads_.size())) rank(access.step);
    ++accesses_;
    step_ = access.step;
    Head& head = heads_[access.head];
    Page& page = pages_[access.page];
    if (page.used_at == 0) ++head.pages;
    page.used_at = ++uses_;
    if (page.head != access.head) {
      page.head = access.head;
      page.keep = keep_of(access.page);
    }
    head.step.emplace_back(-access.mass, UINT32_MAX - access.page);
  }
  void on_insert(PageNumber page) override {
    pages_[page].keep = keep_of(page);
    pages_[page].used_at = ++uses_;
  }
  std::vector<PageNumber> ranked(const std::vector<PageNumber>& resident, uint64_t,
                                 size_t) override {
    std::vector<PageNumber> ranked = resident;
    std::ranges::sort(ranked, {}, [&](PageNumber page) {
      return std::pair(pages_[page].keep, pages_[page].used_at);
    });
    return ranked;
  }

 private:
  struct Head {
    std::vector<std::pair<float, PageNumber>> step;  // the most mass first
    Selections selections;
    std::vector<PageNumber> kept;
    uint64_t pages = 0;
    bool is_unstable = false;
  };
  struct Page {
    uint64_t used_at = 0;
    uint32_t head = 0;
    int keep = 0;
  };
  void end_step() {
    for (auto& [number, head] : heads_) {
      if (head.step.empty()) continue;
      std::ranges::sort(head.step);
      std::vector<PageNumber> selected;
      for (const auto& [mass, page] : head.step) {
        if (selected.size() < 2) selected.push_back(UINT32_MAX - page);
      }
      std::ranges::sort(selected);
      selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
      head.selections.add(selected, head.pages);
      head.step.clear();
    }
  }
  void rank(uint64_t step) {
    ranked_at_ = step;
    accesses_ = 0;
    std::vector<std::pair<double, uint32_t>> heads;
    for (const auto& [number, head] : heads_) {
      heads.emplace_back(head.selections.stability(), number);
    }
    std::ranges::sort(heads);
    for (size_t i = 0; i < heads.size(); ++i) {
      Head& head = heads_[heads[i].second];
      head.is_unstable = i < heads.size() / 2;
      if (!head.selections.empty()) head.kept = head.selections.latest();
    }
    for (auto& [number, page] : pages_) page.keep = keep_of(number);
  }
  int keep_of(PageNumber page) {
    const Head& head = heads_[pages_[page].head];
    if (head.is_unstable) return 2;
    return std::ranges::count(head.kept, page) > 0 ? 1 : 0;
  }

  std::map<uint32_t, Head> heads_;
  std::map<PageNumber, Page> pages_;
  uint64_t step_ = 0;
  uint64_t uses_ = 0;
};

// Pages, each of one head, some of which go on being accessed and some seldom. Sometimes several
// are named, of which one goes and the others stay; and what went comes without an access.
void expect_named_as_modelled(const std::string& name, Model& model, uint64_t seed) {
  Random random(seed);
  const auto policy = choose_policy(name)->make({});
  std::vector<PageNumber> resident;
  std::vector<PageNumber> gone;
  const size_t budget = 3 + random.below(20);
  uint64_t step = random.below(2) == 0 ? 0 : uint64_t{1} << 60;
  const auto insert = [&](PageNumber page) {
    resident.push_back(page);
    policy->on_insert(page, step);
    model.on_insert(page);
  };
  const auto make_room = [&] {
    if (resident.size() < budget) return;
    const size_t stay = random.below(4) == 0 ? 1 + random.below(budget - 1) : 0;
    const std::vector<PageNumber> expected = model.ranked(resident, step, stay + 1);
    for (size_t i = 0; i <= stay; ++i) {
      RC_ASSERT(policy->victim(step) == expected[i]);
      if (i < stay) policy->set_aside(expected[i]);
    }
    std::erase(resident, expected[stay]);
    gone.push_back(expected[stay]);
    policy->on_evict(expected[stay], step);
    if (stay > 0) policy->put_back();
  };
  for (uint64_t number = 0; number < 600; ++number) {
    if (random.below(3) == 0) step += 1 + random.below(4);
    const auto any = static_cast<PageNumber>(random.below(40));
    Access access = {number, step, random.below(2) == 0 ? any % 8 : any};
    const uint32_t head = random.below(8) == 0 ? number % 5 : access.page % 5;
    access.head = head == 0 ? UINT32_MAX : 7 - head;
    access.mass = static_cast<float>(random.below(64)) / 64;
    policy->on_access(access);
    model.on_access(access);
    if (!std::ranges::count(resident, access.page)) {
      make_room();
      insert(access.page);
    }
    if (random.below(8) > 0 || gone.empty()) continue;
    const PageNumber back = gone[random.below(gone.size())];
    if (std::ranges::count(resident, back)) continue;
    make_room();
    insert(back);
  }
}

RC_GTEST_PROP(RankedProperty, LazyNamesWhatIsMostOverdue, (uint32_t seed)) {
  LazyModel model;
  expect_named_as_modelled("lazy:threshold=0.5:window=5", model, seed);
}
RC_GTEST_PROP(RankedProperty, StabilityNamesByHeadsThenSelectionsThenUse, (uint32_t seed)) {
  StabilityModel model;
  expect_named_as_modelled("stability:top=2:window=5:unstable=0.5", model, seed);
}

}  // namespace
}  // namespace farpage::prefetch
