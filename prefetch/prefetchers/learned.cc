#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "prefetch/milestones/candidate_features.h"
#include "prefetch/milestones/ftrl.h"
#include "prefetch/milestones/pending_samples.h"
#include "prefetch/milestones/prequential_score.h"
#include "prefetch/page_generations.h"
#include "prefetch/prefetchers/prefetchers.h"
#include "prefetch/prefetchers/return_prefetcher.h"

namespace farpage::prefetch {
namespace {

class Learned final : public ReturnPrefetcher {
 public:
  Learned(const Setting& setting, Values values)
      : ReturnPrefetcher(setting, values.subspan(1)),
        least_(static_cast<float>(values[0])),
        classifier_(kBits, {}),
        pending_(kPending) {}

  void on_evict(PageNumber page) override {
    ReturnPrefetcher::on_evict(page);
    gone_.push_back(generations_.now(page));
  }
  void on_forget(PageNumber page) override {
    ReturnPrefetcher::on_forget(page);
    pending_.on_forget(page);
    generations_.on_forget(page);
  }

  std::optional<ForesightScore> score() const override {
    return ForesightScore{score_.samples(), pending_.dropped(), score_.base_rate(), score_.pr_auc(),
                          score_.calibration_error()};
  }

 private:
  static constexpr unsigned kBits = 16;
  static constexpr size_t kPending = 1 << 14;
  using Pending = PendingSamples<std::tuple_size_v<CandidateFeatures>>;

  // It learns from pages that are not near alone: those that are come to no good by being fetched.
  size_t name(std::span<PageNumber> pages) override {
    likely_.clear();
    for (Candidates::Candidate& candidate : watch().candidates()) {
      if (near().contains(candidate.page)) continue;
      if (candidate.foretold_step < candidate.trigger_step) foretell(candidate);
      if (may_name() && candidate.probability > least_) {
        likely_.emplace_back(candidate.probability, candidate.page);
      }
    }
    const size_t count = std::min(likely_.size(), pages.size());
    const auto end = likely_.begin() + static_cast<ptrdiff_t>(count);
    const auto is_before = [](const auto& one, const auto& other) {
      return std::pair(-one.first, one.second) < std::pair(-other.first, other.second);
    };
    std::ranges::nth_element(likely_, end, is_before);
    std::sort(likely_.begin(), end, is_before);
    for (size_t i = 0; i < count; ++i) pages[i] = likely_[i].second;
    return count;
  }

  void foretell(Candidates::Candidate& candidate) {
    const auto places = classifier_.places(features_of(candidate, watch(), marked()));
    candidate.probability = classifier_.probability(places);
    candidate.foretold_step = watch().step();
    pending_.add(
        {candidate.page, candidate.probability, watch().step() + Candidates::kSteps, places});
  }

  void on_demanded(PageNumber page) override { pending_.on_access(page); }
  bool is_trigger(PageNumber page) const override { return is_from_afar(page); }
  void on_step() override {
    pending_.on_step(watch().step(), [&](const auto& sample, bool has_come) {
      score_.add(sample.foretold, has_come);
      classifier_.learn(sample.places, has_come);
    });
    for (const NumberedPage& page : gone_) {
      if (generations_.is_still(page) && !near().contains(page.number)) {
        watch().on_gone(page.number);
      }
    }
    gone_.clear();
  }

  const float least_;
  Ftrl classifier_;
  Pending pending_;
  PrequentialScore score_;
  PageGenerations generations_;
  std::vector<NumberedPage> gone_;  // in the step that is heard of
  std::vector<std::pair<float, PageNumber>> likely_;
};

}  // namespace

PrefetcherInfo learned() {
  const auto [explore, verify, conclude] = PhaseBudgets::parameters();
  return {
      .name = "learned",
      .what = fmt::format(
          "of what belongs with pages that come back, as with `milestone`, what is likely to "
          "be demanded within {} steps, as a classifier has learned from what came so far",
          Candidates::kSteps),
      .parameters = {{"least", "how likely it has to be", 0.5, 0, 1}, explore, verify, conclude},
      .make = [](const Setting& setting, Values values) -> std::unique_ptr<Prefetcher> {
        return std::make_unique<Learned>(setting, values);
      }};
}

}  // namespace farpage::prefetch
