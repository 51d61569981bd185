#include <algorithm>
#include <vector>

#include "prefetch/milestones/return_watch.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Milestone final : public Prefetcher {
 public:
  Milestone(const HeadLayout& layout, uint64_t away_turns)
      : watch_(layout), away_turns_(away_turns) {}

  void on_access(const Access& access) override {
    if (!accesses_.empty() && accesses_.front().step != access.step) end_step();
    accesses_.push_back(access);
  }
  // What most pages that came back belong with, and of these what came back last.
  size_t candidates(std::span<PageNumber> pages) override {
    end_step();
    named_.assign(watch_.candidates().begin(), watch_.candidates().end());
    const size_t count = std::min(named_.size(), pages.size());
    const auto is_before = [](const auto& one, const auto& other) {
      if (one.triggers != other.triggers) return one.triggers > other.triggers;
      if (one.trigger_step != other.trigger_step) return one.trigger_step > other.trigger_step;
      return one.page < other.page;
    };
    std::ranges::partial_sort(named_, named_.begin() + static_cast<ptrdiff_t>(count), is_before);
    std::ranges::transform(named_.begin(), named_.begin() + static_cast<ptrdiff_t>(count),
                           pages.begin(), &Candidates::Candidate::page);
    return count;
  }

 private:
  void end_step() {
    if (accesses_.empty()) return;
    watch_.on_step(
        accesses_, [](PageNumber) {},
        [&](PageNumber page) { return watch_.records()[page].longest_gap >= away_turns_; });
    accesses_.clear();
  }

  ReturnWatch watch_;
  const uint64_t away_turns_;
  std::vector<Access> accesses_;  // of the step that is heard of
  std::vector<Candidates::Candidate> named_;
};

}  // namespace

PrefetcherInfo milestone() {
  return {.name = "milestone",
          .what =
              "where a page comes back that was ever away for long, what belongs with it: its "
              "segment's pages, the same block in other heads and layers, what has followed it",
          .parameters = {{"away", "how many steps of its head are long", 16, 5, 1e9}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Milestone>(setting.layout, static_cast<uint64_t>(values[0]));
          }};
}

}  // namespace farpage::prefetch
