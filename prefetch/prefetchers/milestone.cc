#include <algorithm>
#include <vector>

#include "prefetch/milestones/loss_limit.h"
#include "prefetch/milestones/marked_pages.h"
#include "prefetch/milestones/near_pages.h"
#include "prefetch/milestones/pending_samples.h"
#include "prefetch/milestones/return_watch.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Milestone final : public Prefetcher {
 public:
  Milestone(const Setting& setting, uint64_t away_turns)
      : watch_(setting.layout), away_turns_(away_turns), limit_(setting.budget_pages) {}

  void on_access(const Access& access) override {
    if (!accesses_.empty() && accesses_.front().step != access.step) end_step({});
    accesses_.push_back(access);
    limit_.on_access(access.page, near_.is_there(access.page));
    if (near_.on_access(access.page)) from_afar_in_.at(access.page) = watch_.step() + 1;
  }
  void on_insert(PageNumber page) override { near_.on_insert(page); }
  void on_evict(PageNumber page) override { near_.on_evict(page); }
  void on_milestone(PageNumber page) override { marked_.add(page); }

  // What most pages that came back belong with, and of these what came back last.
  size_t candidates(std::span<PageNumber> pages) override {
    watch_step();
    named_.clear();
    const bool may_name = came_share_ >= kLeastCame && limit_.allows();
    for (Candidates::Candidate& candidate : watch_.candidates()) {
      if (near_.contains(candidate.page)) continue;
      if (candidate.foretold_step < candidate.trigger_step) {
        candidate.foretold_step = watch_.step();
        pending_.add({candidate.page, 1, watch_.step() + Candidates::kSteps, {}});
      }
      if (may_name) named_.push_back(candidate);
    }
    const size_t count = std::min(named_.size(), pages.size());
    const auto is_before = [](const auto& one, const auto& other) {
      if (one.triggers != other.triggers) return one.triggers > other.triggers;
      if (one.trigger_step != other.trigger_step) return one.trigger_step > other.trigger_step;
      return one.page < other.page;
    };
    std::ranges::partial_sort(named_, named_.begin() + static_cast<ptrdiff_t>(count), is_before);
    std::ranges::transform(named_.begin(), named_.begin() + static_cast<ptrdiff_t>(count),
                           pages.begin(), &Candidates::Candidate::page);
    end_step(pages.first(count));
    return count;
  }

 private:
  static constexpr double kLeastCame = 0.5;  // of what belongs, or it is not worth its room
  static constexpr double kWeight = 1.0 / 64;
  static constexpr size_t kPending = 1 << 14;

  // One that comes back from afar, and that was away for long before or is marked.
  bool is_milestone(PageNumber page) const {
    return from_afar_in_[page] == watch_.step() &&
           (watch_.records()[page].longest_gap >= away_turns_ || marked_.contains(page));
  }
  void watch_step() {
    if (accesses_.empty()) return;
    watch_.on_step(
        accesses_, [&](PageNumber page) { pending_.on_access(page); },
        [&](PageNumber page) { return is_milestone(page); });
    pending_.on_step(watch_.step(), [&](const auto&, bool has_come) {
      came_share_ += kWeight * ((has_come ? 1 : 0) - came_share_);
    });
    accesses_.clear();
  }
  void end_step(std::span<const PageNumber> named) {
    watch_step();
    near_.on_step(named);
  }

  ReturnWatch watch_;
  const uint64_t away_turns_;
  LossLimit limit_;
  NearPages near_;
  MarkedPages marked_;
  PendingSamples<0> pending_{kPending};
  double came_share_ =
      kLeastCame;  // of what belonged with what came back, a moving average over pages
  PerPage<uint64_t> from_afar_in_;  // the last step
  std::vector<Access> accesses_;    // of the step that is heard of
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
            return std::make_unique<Milestone>(setting, static_cast<uint64_t>(values[0]));
          }};
}

}  // namespace farpage::prefetch
