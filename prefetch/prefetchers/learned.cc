#include <algorithm>
#include <utility>
#include <vector>

#include "prefetch/milestones/candidate_features.h"
#include "prefetch/milestones/ftrl.h"
#include "prefetch/milestones/pending_samples.h"
#include "prefetch/milestones/prequential_score.h"
#include "prefetch/milestones/return_watch.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Learned final : public Prefetcher {
 public:
  Learned(const HeadLayout& layout, float least)
      : watch_(layout), least_(least), classifier_(kBits, {}), pending_(kPending) {}

  void on_access(const Access& access) override {
    if (!accesses_.empty() && accesses_.front().step != access.step) end_step();
    accesses_.push_back(access);
  }
  void on_insert(PageNumber page) override { is_near_.at(page) = true; }
  void on_evict(PageNumber page) override { is_near_.at(page) = false; }

  // It learns from pages that are not near alone: those that are come to no good by being fetched.
  size_t candidates(std::span<PageNumber> pages) override {
    end_step();
    likely_.clear();
    for (const Candidates::Candidate& candidate : watch_.candidates()) {
      if (is_near_[candidate.page]) continue;
      const auto features =
          features_of(candidate, watch_.records(), watch_.segmenter(), watch_.step());
      const float probability = classifier_.probability(features);
      pending_.add({candidate.page, probability, watch_.step() + Candidates::kSteps, features});
      if (probability >= least_) likely_.emplace_back(probability, candidate.page);
    }
    const size_t count = std::min(likely_.size(), pages.size());
    std::ranges::partial_sort(likely_, likely_.begin() + static_cast<ptrdiff_t>(count),
                              [](const auto& one, const auto& other) {
                                return std::pair(-one.first, one.second) <
                                       std::pair(-other.first, other.second);
                              });
    for (size_t i = 0; i < count; ++i) pages[i] = likely_[i].second;
    return count;
  }

  std::optional<ForesightScore> score() const override {
    return ForesightScore{score_.samples(), pending_.dropped(), score_.base_rate(), score_.pr_auc(),
                          score_.calibration_error()};
  }

 private:
  static constexpr unsigned kBits = 16;
  static constexpr size_t kPending = 1 << 14;
  using Pending = PendingSamples<std::tuple_size_v<CandidateFeatures>>;

  void learn(const Pending::Sample& sample, bool has_come) {
    score_.add(sample.foretold, has_come);
    classifier_.learn(sample.features, has_come);
  }

  void end_step() {
    if (accesses_.empty()) return;
    watch_.on_step(
        accesses_,
        [&](PageNumber page) {
          pending_.on_access(page, [&](const auto& sample) { learn(sample, true); });
        },
        [](PageNumber) { return true; });
    pending_.on_step(watch_.step(), [&](const auto& sample) { learn(sample, false); });
    accesses_.clear();
  }

  ReturnWatch watch_;
  const float least_;
  Ftrl classifier_;
  Pending pending_;
  PrequentialScore score_;
  std::vector<Access> accesses_;  // of the step that is heard of
  PerPage<uint8_t> is_near_;
  std::vector<std::pair<float, PageNumber>> likely_;
};

}  // namespace

PrefetcherInfo learned() {
  return {.name = "learned",
          .what =
              "of what belongs with pages that come back, as with `milestone`, what is likely to "
              "be demanded within ten steps, as a classifier has learned from what came so far",
          .parameters = {{"least", "how likely it has to be", 0.5, 0, 1}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Learned>(setting.layout, static_cast<float>(values[0]));
          }};
}

}  // namespace farpage::prefetch
