#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "prefetch/page_heap.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"
#include "prefetch/ranking_pace.h"
#include "prefetch/selections.h"

namespace farpage::prefetch {
namespace {

class Stability final : public Policy {
 public:
  Stability(double top, double window_steps, double unstable)
      : top_(static_cast<size_t>(top)),
        unstable_(unstable),
        pace_(static_cast<uint64_t>(window_steps)) {}

  void on_access(const Access& access) override {
    if (access.step != step_) end_step();
    if (pace_.is_due(access.step, heads_.size())) rank(access.step);
    pace_.on_access();
    step_ = access.step;
    if (access.head >= heads_.size()) heads_.resize(access.head + size_t{1});
    Head& head = heads_[access.head];
    Page& page = pages_.at(access.page);
    if (page.accessed_at == kNever) ++head.pages;
    if (page.is_resident) remove(access.page);
    if (page.head != access.head) page.is_kept = is_kept(head, access.page);
    page.head = access.head;
    page.accessed_at = access.number;
    if (head.step.empty()) active_.push_back(access.head);
    head.step.emplace_back(access.mass, access.page);
    if (page.is_resident) add(access.page);
  }
  void on_insert(PageNumber number, uint64_t) override {
    Page& page = pages_.at(number);
    page.is_resident = true;
    page.is_kept = page.head < heads_.size() && is_kept(heads_[page.head], number);
    add(number);
  }
  void on_evict(PageNumber number, uint64_t) override {
    pages_.at(number).is_resident = false;
    remove(number);
  }
  PageNumber victim(uint64_t) override {
    const auto first =
        std::ranges::find_if(by_oldest_, [](const PageHeap& heap) { return heap.size() > 0; });
    return lists_[first->top()].oldest;
  }
  void set_aside(PageNumber page) override {
    remove(page);
    aside_.push_back(page);
  }
  void put_back() override {
    for (; !aside_.empty(); aside_.pop_back()) add(aside_.back());
  }

 private:
  // What goes first: of stable heads what they did not select, then what they did, and at last the
  // pages of unstable ones.
  enum Order : uint8_t { kRest, kSelected, kUnstable, kOrders };
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr PageNumber kNone = UINT32_MAX;
  struct Head {
    std::vector<std::pair<float, PageNumber>> step;  // its accesses in this one
    Selections selections;
    std::vector<PageNumber> kept;  // as it was ranked last, in the order of their numbers
    uint64_t pages = 0;            // that it has by now
    bool is_unstable = false;
  };
  struct Page {
    uint64_t accessed_at = kNever;
    PageNumber older = kNone;  // in its list
    PageNumber newer = kNone;
    uint32_t head = 0;
    bool is_kept = false;
    bool is_resident = false;
  };
  // A head's resident pages by use: those that it keeps, or the others.
  struct List {
    PageNumber oldest = kNone;
    PageNumber newest = kNone;
  };

  // What each head selected in it: its pages with the most mass.
  void end_step() {
    for (const uint32_t number : active_) {
      Head& head = heads_[number];
      const size_t most = std::min(top_, head.step.size());
      std::ranges::nth_element(head.step, head.step.begin() + static_cast<ptrdiff_t>(most),
                               std::greater<>());
      std::vector<PageNumber> selected;
      for (size_t i = 0; i < most; ++i) selected.push_back(head.step[i].second);
      std::ranges::sort(selected);
      selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
      head.selections.add(std::move(selected), head.pages);
      head.step.clear();
    }
    active_.clear();
  }

  // Which heads are stable, and what they keep until it is done again.
  void rank(uint64_t step) {
    pace_.on_ranked(step);
    std::vector<std::pair<double, uint32_t>> steadiest_last;
    for (uint32_t number = 0; number < heads_.size(); ++number) {
      if (heads_[number].pages == 0) continue;
      steadiest_last.emplace_back(heads_[number].selections.stability(), number);
    }
    std::ranges::sort(steadiest_last);
    const auto unstable =
        static_cast<size_t>(static_cast<double>(steadiest_last.size()) * unstable_);
    for (size_t i = 0; i < steadiest_last.size(); ++i) {
      const uint32_t number = steadiest_last[i].second;
      set_unstable(number, i < unstable);
      if (!heads_[number].selections.empty()) keep(number, heads_[number].selections.latest());
    }
  }

  void set_unstable(uint32_t number, bool is_unstable) {
    if (heads_[number].is_unstable == is_unstable) return;
    const std::array lists = {list_of(number, false), list_of(number, true)};
    for (const uint32_t list : lists) {
      if (lists_[list].oldest != kNone) order_of(list).remove(list);
    }
    heads_[number].is_unstable = is_unstable;
    for (const uint32_t list : lists) {
      if (lists_[list].oldest != kNone) rank_list(list);
    }
  }

  void keep(uint32_t number, const std::vector<PageNumber>& selected) {
    std::vector<PageNumber>& kept = heads_[number].kept;
    changed_.clear();
    std::ranges::set_symmetric_difference(kept, selected, std::back_inserter(changed_));
    kept = selected;
    std::erase_if(changed_, [&](PageNumber changed) { return pages_[changed].head != number; });
    std::ranges::sort(changed_, std::greater<>(),
                      [this](PageNumber changed) { return pages_[changed].accessed_at; });
    std::array<PageNumber, 2> newer = {kNone, kNone};
    for (const PageNumber changed : changed_) {
      Page& page = pages_.at(changed);
      if (page.is_resident) remove(changed);
      page.is_kept = !page.is_kept;
      if (!page.is_resident) continue;
      PageNumber& before = newer[page.is_kept ? 1 : 0];
      add(changed, before);
      before = changed;
    }
  }

  static bool is_kept(const Head& head, PageNumber number) {
    return std::ranges::binary_search(head.kept, number);
  }
  static uint32_t list_of(uint32_t head, bool is_kept) { return 2 * head + (is_kept ? 1 : 0); }
  PageHeap& order_of(uint32_t list) {
    const uint32_t head = list / 2;
    if (head < heads_.size() && heads_[head].is_unstable) return by_oldest_[kUnstable];
    return by_oldest_[list % 2 == 0 ? kRest : kSelected];
  }

  // Few are newer than one that comes; `newer`: one of them, if any is known.
  void add(PageNumber number, PageNumber newer = kNone) {
    Page& page = pages_.at(number);
    const uint32_t name = list_of(page.head, page.is_kept);
    List& list = lists_.at(name);
    page.newer = newer;
    page.older = newer == kNone ? list.newest : pages_[newer].older;
    while (page.older != kNone && pages_[page.older].accessed_at > page.accessed_at) {
      page.newer = page.older;
      page.older = pages_[page.older].older;
    }
    (page.newer == kNone ? list.newest : pages_.at(page.newer).older) = number;
    if (page.older != kNone) {
      pages_.at(page.older).newer = number;
      return;
    }
    list.oldest = number;
    rank_list(name);
  }
  void remove(PageNumber number) {
    const Page& page = pages_[number];
    const uint32_t name = list_of(page.head, page.is_kept);
    List& list = lists_.at(name);
    (page.newer == kNone ? list.newest : pages_.at(page.newer).older) = page.older;
    if (page.older != kNone) {
      pages_.at(page.older).newer = page.newer;
      return;
    }
    list.oldest = page.newer;
    rank_list(name);
  }
  // Its oldest page is another one.
  void rank_list(uint32_t list) {
    PageHeap& order = order_of(list);
    const PageNumber oldest = lists_[list].oldest;
    if (oldest == kNone) return order.remove(list);
    const auto score = static_cast<double>(pages_[oldest].accessed_at);
    order.contains(list) ? order.change(list, score) : order.push(list, score);
  }

  const size_t top_;
  const double unstable_;  // share of the heads
  std::vector<Head> heads_;
  std::vector<uint32_t> active_;  // that had accesses in this step
  PerPage<Page> pages_;
  PerPage<List> lists_;                      // two of each head
  std::array<PageHeap, kOrders> by_oldest_;  // of those that are not empty
  std::vector<PageNumber> aside_;
  std::vector<PageNumber> changed_;
  uint64_t step_ = 0;
  RankingPace pace_;
};

}  // namespace

// FlexiCache's classes of heads. A head's stability is measured as the trace goes, where there it
// is known before.
PolicyInfo stability() {
  return {.name = "stability",
          .what =
              "ranked once in a window of steps: first the page goes that a stable head did not "
              "select, then what it did; the pages of the least stable heads stay longest",
          .parameters = {{"top", "how many pages a head selects in a step", 64, 1, 1e6},
                         {"window", "in steps", 16, 1, 1e6},
                         {"unstable", "the share of the heads that are", 0.25, 0, 1}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<Stability>(values[0], values[1], values[2]);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
