#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "prefetch/page_list.h"
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
    if (pace_.is_due(access.step, ranked())) rank(access.step);
    pace_.on_access();
    step_ = access.step;
    Head& head = heads_[access.head];
    Page& page = pages_.at(access.page);
    if (page.accessed_at == kNever) ++head.pages;
    page.head = access.head;
    page.accessed_at = access.number;
    if (head.step.empty()) active_.push_back(access.head);
    head.step.emplace_back(access.mass, access.page);
    if (page.is_resident) lists_[page.keep].move_to_back(access.page);
  }
  void on_insert(PageNumber number, uint64_t) override {
    Page& page = pages_.at(number);
    page.is_resident = true;
    page.keep = keep_of(number);
    lists_[page.keep].push_back(number);
  }
  void on_evict(PageNumber number, uint64_t) override {
    Page& page = pages_.at(number);
    page.is_resident = false;
    lists_[page.keep].remove(number);
  }
  PageNumber victim(uint64_t) override {
    return std::ranges::find_if(lists_, [](const PageList& list) { return list.size() > 0; })
        ->front();
  }
  void set_aside(PageNumber page) override { lists_[pages_[page].keep].set_aside(page); }
  void put_back() override {
    for (PageList& list : lists_) list.put_back();
  }

 private:
  // What goes first: of stable heads what they did not select, then what they did, and at last the
  // pages of unstable ones.
  enum Keep : uint8_t { kRest, kSelected, kUnstable, kKinds };
  static constexpr uint64_t kNever = UINT64_MAX;
  struct Head {
    std::vector<std::pair<float, PageNumber>> step;  // its accesses in this one
    Selections selections;
    std::vector<PageNumber> kept;  // as it was ranked last, in the order of their numbers
    uint64_t pages = 0;            // that it has by now
    bool is_unstable = false;
  };
  struct Page {
    uint64_t accessed_at = kNever;
    uint32_t head = 0;
    Keep keep = kRest;
    bool is_resident = false;
  };

  // What each head selected in it: its pages with the most mass.
  void end_step() {
    for (const uint32_t name : active_) {
      Head& head = heads_[name];
      const size_t most = std::min(top_, head.step.size());
      std::ranges::partial_sort(head.step, head.step.begin() + static_cast<ptrdiff_t>(most),
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

  size_t ranked() const {
    size_t ranked = heads_.size();
    for (const PageList& list : lists_) ranked += list.size();
    return ranked;
  }

  // Which heads are stable, and what these keep until it is done again.
  void rank(uint64_t step) {
    pace_.on_ranked(step);
    std::vector<std::pair<double, uint32_t>> steadiest_last;
    for (const auto& [name, head] : heads_) {
      steadiest_last.emplace_back(head.selections.stability(), name);
    }
    std::ranges::sort(steadiest_last);
    const auto unstable =
        static_cast<size_t>(static_cast<double>(steadiest_last.size()) * unstable_);
    for (size_t i = 0; i < steadiest_last.size(); ++i) {
      Head& head = heads_[steadiest_last[i].second];
      head.is_unstable = i < unstable;
      if (!head.selections.empty()) head.kept = head.selections.latest();
    }
    std::vector<std::pair<uint64_t, PageNumber>> resident;
    for (PageList& list : lists_) {
      for (; list.size() > 0; list.remove(list.front())) {
        resident.emplace_back(pages_[list.front()].accessed_at, list.front());
      }
    }
    std::ranges::sort(resident);
    for (const auto& [accessed_at, number] : resident) {
      Page& page = pages_.at(number);
      page.keep = keep_of(number);
      lists_[page.keep].push_back(number);
    }
  }

  Keep keep_of(PageNumber number) {
    const Head& head = heads_[pages_[number].head];
    if (head.is_unstable) return kUnstable;
    return std::ranges::binary_search(head.kept, number) ? kSelected : kRest;
  }

  const size_t top_;
  const double unstable_;  // share of the heads
  std::map<uint32_t, Head> heads_;
  std::vector<uint32_t> active_;  // that had accesses in this step
  PerPage<Page> pages_;
  std::array<PageList, kKinds> lists_;  // by use
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
