#include <algorithm>
#include <utility>
#include <vector>

#include "prefetch/milestones/candidate_features.h"
#include "prefetch/milestones/ftrl.h"
#include "prefetch/milestones/loss_limit.h"
#include "prefetch/milestones/marked_pages.h"
#include "prefetch/milestones/near_pages.h"
#include "prefetch/milestones/pending_samples.h"
#include "prefetch/milestones/prequential_score.h"
#include "prefetch/milestones/return_watch.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Learned final : public Prefetcher {
 public:
  Learned(const Setting& setting, float least)
      : watch_(setting.layout),
        least_(least),
        classifier_(kBits, {}),
        pending_(kPending),
        limit_(setting.budget_pages) {}

  void on_access(const Access& access) override {
    if (!accesses_.empty() && accesses_.front().step != access.step) end_step({});
    accesses_.push_back(access);
    limit_.on_access(access.page, near_.is_there(access.page));
    if (near_.on_access(access.page)) from_afar_in_.at(access.page) = watch_.step() + 1;
  }
  void on_insert(PageNumber page) override { near_.on_insert(page); }
  void on_evict(PageNumber page) override {
    near_.on_evict(page);
    gone_.push_back(page);
  }

  void on_milestone(PageNumber page) override { marked_.add(page); }

  // It learns from pages that are not near alone: those that are come to no good by being fetched.
  size_t candidates(std::span<PageNumber> pages) override {
    watch_step();
    likely_.clear();
    const bool may_name = limit_.allows();
    for (Candidates::Candidate& candidate : watch_.candidates()) {
      if (near_.contains(candidate.page)) continue;
      if (candidate.foretold_step < candidate.trigger_step) foretell(candidate);
      if (may_name && candidate.probability > least_) {
        likely_.emplace_back(candidate.probability, candidate.page);
      }
    }
    const size_t count = std::min(likely_.size(), pages.size());
    std::ranges::partial_sort(likely_, likely_.begin() + static_cast<ptrdiff_t>(count),
                              [](const auto& one, const auto& other) {
                                return std::pair(-one.first, one.second) <
                                       std::pair(-other.first, other.second);
                              });
    for (size_t i = 0; i < count; ++i) pages[i] = likely_[i].second;
    end_step(pages.first(count));
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

  void foretell(Candidates::Candidate& candidate) {
    const auto features = features_of(candidate, watch_, marked_);
    candidate.probability = classifier_.probability(features);
    candidate.foretold_step = watch_.step();
    pending_.add(
        {candidate.page, candidate.probability, watch_.step() + Candidates::kSteps, features});
  }

  // What the step told; nothing where that has been heard.
  void watch_step() {
    if (accesses_.empty()) return;
    watch_.on_step(
        accesses_, [&](PageNumber page) { pending_.on_access(page); },
        [&](PageNumber page) { return from_afar_in_[page] == watch_.step(); });
    pending_.on_step(watch_.step(), [&](const auto& sample, bool has_come) {
      score_.add(sample.foretold, has_come);
      classifier_.learn(sample.features, has_come);
    });
    for (const PageNumber page : gone_) {
      if (!near_.contains(page)) watch_.on_gone(page);
    }
    accesses_.clear();
    gone_.clear();
  }
  void end_step(std::span<const PageNumber> named) {
    watch_step();
    near_.on_step(named);
  }

  ReturnWatch watch_;
  const float least_;
  Ftrl classifier_;
  Pending pending_;
  PrequentialScore score_;
  NearPages near_;
  MarkedPages marked_;
  LossLimit limit_;
  PerPage<uint64_t> from_afar_in_;  // the last step
  std::vector<Access> accesses_;    // of the step that is heard of
  std::vector<PageNumber> gone_;    // in it
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
            return std::make_unique<Learned>(setting, static_cast<float>(values[0]));
          }};
}

}  // namespace farpage::prefetch
