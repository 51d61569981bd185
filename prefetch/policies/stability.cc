#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "prefetch/importance/selections.h"
#include "prefetch/page_heap.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"
#include "prefetch/ranking_pace.h"
#include "prefetch/use_lists.h"

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
    if (pace_.is_due(access.step, numbers_.size())) rank(access.step);
    pace_.on_access();
    step_ = access.step;
    const uint32_t number = number_of(access.head);
    Head& head = heads_[number];
    if (head.step.empty()) active_.push_back(number);
    head.step.emplace_back(access.mass, access.page);
    uint32_t& owner = owner_.at(access.page);
    if (owner == kNobody) ++head.pages;
    owner = number;
    const bool is_resident = lists_.contains(access.page);
    if (is_resident) remove(access.page);
    lists_.use(access.page);
    if (is_resident) add(access.page);
  }
  void on_insert(PageNumber page, uint64_t) override {
    lists_.use(page);
    add(page);
  }
  void on_evict(PageNumber page, uint64_t) override { remove(page); }
  PageNumber victim(uint64_t) override {
    const auto first =
        std::ranges::find_if(by_oldest_, [](const PageHeap& heap) { return heap.size() > 0; });
    return lists_.oldest(first->top());
  }
  void set_aside(PageNumber page) override {
    remove(page);
    aside_.push_back(page);
  }
  void put_back() override {
    for (; !aside_.empty(); aside_.pop_back()) {
      const PageNumber page = aside_.back();
      change(list_of(page), [&](uint32_t list) { lists_.add_oldest(page, list); });
    }
  }

 private:
  // The order of eviction: pages of stable heads that they did not select, then those that they
  // did, and at last the pages of unstable heads.
  enum Order : uint8_t { kRest, kSelected, kUnstable, kOrders };
  static constexpr PageNumber kNone = UseLists::kNone;
  static constexpr uint32_t kNobody = 0;  // whose pages were never accessed: a head that is none
  struct Head {
    std::vector<std::pair<float, PageNumber>> step;  // its accesses in this one
    Selections selections;
    std::vector<PageNumber> kept;  // as it was ranked last, in the order of their numbers
    uint64_t pages = 0;            // that it has by now
    bool has_selected = false;     // since it was ranked last
    bool is_unstable = false;
  };

  // In the order in which they come, whatever their names are.
  uint32_t number_of(uint32_t head) {
    const auto [at, is_new] = numbers_.try_emplace(head, static_cast<uint32_t>(heads_.size()));
    if (is_new) heads_.emplace_back();
    return at->second;
  }

  // Each head's selection in it: its pages with the most mass.
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
      head.has_selected = true;
      head.step.clear();
    }
    active_.clear();
  }

  // Which heads are stable, and what they keep until it is done again.
  void rank(uint64_t step) {
    pace_.on_ranked(step);
    steadiest_last_.clear();
    for (const auto& [head, number] : numbers_) {
      steadiest_last_.emplace_back(heads_[number].selections.stability(), head, number);
    }
    std::ranges::sort(steadiest_last_);
    const auto unstable =
        static_cast<size_t>(static_cast<double>(steadiest_last_.size()) * unstable_);
    for (size_t i = 0; i < steadiest_last_.size(); ++i) {
      const uint32_t number = std::get<2>(steadiest_last_[i]);
      set_unstable(number, i < unstable);
      if (std::exchange(heads_[number].has_selected, false)) keep_selected(number);
    }
  }

  void set_unstable(uint32_t number, bool is_unstable) {
    if (heads_[number].is_unstable == is_unstable) return;
    const std::array lists = {list_of(number, false), list_of(number, true)};
    for (const uint32_t list : lists) {
      if (lists_.oldest(list) != kNone) order_of(list).remove(list);
    }
    heads_[number].is_unstable = is_unstable;
    for (const uint32_t list : lists) {
      if (lists_.oldest(list) != kNone) rank_list(list);
    }
  }

  // Of its pages those change lists that it selects anew, or no more.
  void keep_selected(uint32_t number) {
    Head& head = heads_[number];
    const std::vector<PageNumber>& selected = head.selections.latest();
    changed_.clear();
    std::ranges::set_symmetric_difference(head.kept, selected, std::back_inserter(changed_));
    head.kept = selected;
    std::erase_if(changed_, [&](PageNumber page) {
      return owner_[page] != number || !lists_.contains(page);
    });
    for (const PageNumber page : changed_) remove(page);
    std::ranges::sort(changed_, std::greater<>(),
                      [this](PageNumber page) { return lists_.used_at(page); });
    std::array<PageNumber, 2> newer = {kNone, kNone};
    for (const PageNumber page : changed_) {
      PageNumber& before = newer[list_of(page) % 2];
      add(page, std::exchange(before, page));
    }
  }

  // Two of each head: of what it keeps, and of the rest.
  static uint32_t list_of(uint32_t number, bool is_kept) { return 2 * number + (is_kept ? 1 : 0); }
  uint32_t list_of(PageNumber page) const {
    const uint32_t number = owner_[page];
    return list_of(number, std::ranges::binary_search(heads_[number].kept, page));
  }
  PageHeap& order_of(uint32_t list) {
    if (heads_[list / 2].is_unstable) return by_oldest_[kUnstable];
    return by_oldest_[list % 2 == 0 ? kRest : kSelected];
  }

  void add(PageNumber page, PageNumber newer = kNone) {
    change(list_of(page), [&](uint32_t list) { lists_.add(page, list, newer); });
  }
  void remove(PageNumber page) {
    change(lists_.list(page), [&](uint32_t) { lists_.remove(page); });
  }
  template <typename Change>
  void change(uint32_t list, const Change& change) {
    const PageNumber before = lists_.oldest(list);
    change(list);
    if (lists_.oldest(list) != before) rank_list(list);
  }
  // Its oldest page is another one.
  void rank_list(uint32_t list) {
    PageHeap& order = order_of(list);
    const PageNumber oldest = lists_.oldest(list);
    if (oldest == kNone) return order.remove(list);
    const auto score = static_cast<double>(lists_.used_at(oldest));
    order.contains(list) ? order.change(list, score) : order.push(list, score);
  }

  const size_t top_;
  const double unstable_;                           // share of the heads
  std::unordered_map<uint32_t, uint32_t> numbers_;  // of heads, by their names
  std::vector<Head> heads_{1};                      // by number
  std::vector<uint32_t> active_;                    // that had accesses in this step
  PerPage<uint32_t> owner_{kNobody};                // of a page: the head that accessed it last
  UseLists lists_;                                  // what is resident
  std::array<PageHeap, kOrders> by_oldest_;         // of the lists that are not empty
  std::vector<PageNumber> aside_;
  std::vector<PageNumber> changed_;
  // Stability, name and number of each head, as it is ranked.
  std::vector<std::tuple<double, uint32_t, uint32_t>> steadiest_last_;
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
              "select, then what it did; the pages of the least stable heads stay longest; of "
              "several the one that was accessed, or came, longest ago",
          .parameters = {{"top", "how many pages a head selects in a step", 64, 1, 1e6},
                         {"window", "in steps", 16, 1, 1e6},
                         {"unstable", "the share of the heads that are", 0.25, 0, 1}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<Stability>(values[0], values[1], values[2]);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
