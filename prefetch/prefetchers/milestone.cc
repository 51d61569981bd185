#include <algorithm>
#include <vector>

#include "prefetch/milestones/pending_samples.h"
#include "prefetch/prefetchers/prefetchers.h"
#include "prefetch/prefetchers/return_prefetcher.h"

namespace farpage::prefetch {
namespace {

class Milestone final : public ReturnPrefetcher {
 public:
  Milestone(const Setting& setting, Values values)
      : ReturnPrefetcher(setting, values.subspan(1)),
        away_turns_(static_cast<uint64_t>(values[0])) {}

  void on_forget(PageNumber page) override {
    ReturnPrefetcher::on_forget(page);
    pending_.on_forget(page);
  }

 private:
  static constexpr double kLeastCame = 0.5;  // of what belongs, or it is not worth its room
  static constexpr double kWeight = 1.0 / 64;
  static constexpr size_t kPending = 1 << 14;

  // The segment of most pages that came back, and of equal ones the latest.
  size_t name(std::span<PageNumber> pages) override {
    named_.clear();
    const bool is_worth_it = came_share_ >= kLeastCame && may_name();
    for (Candidates::Candidate& candidate : watch().candidates()) {
      if (near().contains(candidate.page)) continue;
      if (candidate.foretold_step < candidate.trigger_step) {
        candidate.foretold_step = watch().step();
        pending_.add({candidate.page, 1, watch().step() + Candidates::kSteps, {}});
      }
      if (is_worth_it) named_.push_back(candidate);
    }
    const size_t count = std::min(named_.size(), pages.size());
    const auto is_before = [](const auto& one, const auto& other) {
      if (one.triggers != other.triggers) return one.triggers > other.triggers;
      if (one.trigger_step != other.trigger_step) return one.trigger_step > other.trigger_step;
      return one.page < other.page;
    };
    const auto end = named_.begin() + static_cast<ptrdiff_t>(count);
    std::ranges::nth_element(named_, end, is_before);
    std::sort(named_.begin(), end, is_before);
    std::ranges::transform(named_.begin(), end, pages.begin(), &Candidates::Candidate::page);
    return count;
  }

  void on_demanded(PageNumber page) override { pending_.on_access(page); }
  // One that was away for long before, or is marked.
  bool is_trigger(PageNumber page) const override {
    return is_from_afar(page) &&
           (watch().records()[page].longest_gap >= away_turns_ || marked().contains(page));
  }
  void on_step() override {
    pending_.on_step(watch().step(), [&](const auto&, bool has_come) {
      came_share_ += kWeight * ((has_come ? 1 : 0) - came_share_);
    });
  }

  const uint64_t away_turns_;
  PendingSamples<0> pending_{kPending};
  // Of what belonged with what came back, a moving average over pages.
  double came_share_ = kLeastCame;
  std::vector<Candidates::Candidate> named_;
};

}  // namespace

PrefetcherInfo milestone() {
  const auto [explore, verify, conclude] = PhaseBudgets::parameters();
  return {.name = "milestone",
          .what =
              "where a page comes back that was ever away for long, what belongs with it: its "
              "segment's pages, the same block in other heads and layers, what has followed it",
          .parameters = {{"away", "how many steps of its head are long", 16, 5, 1e9},
                         explore,
                         verify,
                         conclude},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Milestone>(setting, values);
          }};
}

}  // namespace farpage::prefetch
