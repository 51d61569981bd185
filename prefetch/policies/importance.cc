#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "prefetch/paged_memory.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"
#include "prefetch/ranking_confidence.h"

namespace farpage::prefetch {
namespace {

// I ← α·s + (1 − α)·I in every step, where s is 0 for a page that is not accessed. All of them
// decay alike, so what is kept of one, log2 I + what all have decayed by since an epoch, changes
// only with its accesses: one float32 a page.
class Importance final : public SteadyScorer {
 public:
  Importance(double alpha, double pinned)
      : alpha_(alpha), decay_(-std::log2(1 - alpha)), pinned_(static_cast<uint64_t>(pinned)) {}

  void on_access(const Access& access) override {
    go_on_to(access.step);
    float& kept = kept_.at(access.page);
    if (std::isnan(kept)) kept = named_[access.head]++ < pinned_ ? kPinned : kNoMass;
    if (kept == kPinned || access.mass <= 0) return;
    const double now = std::exp2(static_cast<double>(kept) - decayed_);
    const double next = std::min(now + alpha_ * static_cast<double>(access.mass), 1.0);
    kept = static_cast<float>(std::log2(next) + decayed_);
  }
  double score(PageNumber page, uint64_t) const override {
    return epoch_ + static_cast<double>(kept_[page]);
  }

 private:
  static constexpr float kNeverNamed = std::numeric_limits<float>::quiet_NaN();
  static constexpr float kNoMass = -std::numeric_limits<float>::infinity();
  static constexpr float kPinned = std::numeric_limits<float>::infinity();
  // All in powers of 2. After so much nothing is left beside the least mass that an access can add,
  // so more changes no order: steps may be nanoseconds.
  static constexpr double kMostOfAGap = 512;
  // Below it a float32 tells 0.01% apart. A power of 2, so that what is taken off a float32 leaves
  // it as exact as it was, until it is much larger.
  static constexpr double kEpoch = 4096;
  static constexpr uint64_t kPagesOfAnAccess = 16;  // that an epoch's end may look at

  void go_on_to(uint64_t step) {
    ++accesses_;
    if (step == step_) return;
    decayed_ += std::min(static_cast<double>(step - step_) * decay_, kMostOfAGap);
    step_ = step;
    if (decayed_ >= kEpoch && accesses_ >= kept_.size() / kPagesOfAnAccess) begin_epoch();
  }

  void begin_epoch() {
    const double epochs = std::floor(decayed_ / kEpoch) * kEpoch;
    for (float& kept : kept_.values()) kept -= static_cast<float>(epochs);
    decayed_ -= epochs;
    epoch_ += epochs;
    accesses_ = 0;
  }

  const double alpha_;
  const double decay_;  // of log2 I in a step
  const uint64_t pinned_;
  std::unordered_map<uint32_t, uint64_t> named_;  // how many pages of a head
  PerPage<float> kept_ = PerPage<float>(kNeverNamed);
  double epoch_ = 0;       // what all had decayed by as it began
  double decayed_ = 0;     // since then
  uint64_t accesses_ = 0;  // since then
  uint64_t step_ = 0;
};

std::unique_ptr<Policy> ranked_by_importance(double alpha, double pinned) {
  return evict_by(std::unique_ptr<SteadyScorer>(std::make_unique<Importance>(alpha, pinned)));
}

// Counts the hits that a policy would have in a memory of its own.
class Shadow {
 public:
  Shadow(std::unique_ptr<Policy> policy, uint64_t budget_pages)
      : policy_(std::move(policy)), memory_(budget_pages, *policy_) {}

  bool hits(const Access& access) { return memory_.access(access); }

 private:
  const std::unique_ptr<Policy> policy_;
  PagedMemory memory_;
};

// Goes by the importance while that would hit as often as going by use, and else by use.
class Cautious final : public Policy {
 public:
  Cautious(double alpha, double pinned, double trust, const Setting& setting)
      : trust_(trust),
        ranked_(ranked_by_importance(alpha, pinned)),
        by_use_(lru().make(setting, {})),
        if_ranked_(ranked_by_importance(alpha, pinned), setting.budget_pages),
        if_by_use_(lru().make(setting, {}), setting.budget_pages) {}

  void on_access(const Access& access) override {
    confidence_.observe(if_ranked_.hits(access), if_by_use_.hits(access));
    ranked_->on_access(access);
    by_use_->on_access(access);
  }
  void on_insert(PageNumber page, uint64_t step) override {
    ranked_->on_insert(page, step);
    by_use_->on_insert(page, step);
  }
  void on_evict(PageNumber page, uint64_t step) override {
    ranked_->on_evict(page, step);
    by_use_->on_evict(page, step);
  }
  PageNumber victim(uint64_t step) override { return trusted().victim(step); }
  void set_aside(PageNumber page) override { trusted().set_aside(page); }
  void put_back() override { trusted().put_back(); }

 private:
  // Another after an access alone.
  Policy& trusted() { return confidence_.value() >= trust_ ? *ranked_ : *by_use_; }

  const double trust_;
  const std::unique_ptr<Policy> ranked_;
  const std::unique_ptr<Policy> by_use_;
  Shadow if_ranked_;
  Shadow if_by_use_;
  RankingConfidence confidence_;
};

}  // namespace

// The basis of the project's own prefetch.
PolicyInfo importance() {
  return {.name = "importance",
          .what = "the page goes whose attention, as a moving average over the steps, is least",
          .parameters = {{"alpha", "the weight of a step in the average", 0.1, 0.001, 0.9},
                         {"pinned", "how many of the pages first named of each head never go", 1, 0,
                          1e6},
                         {"trust",
                          "the page accessed longest ago goes while the average hits what that "
                          "would miss less often than this, of all that one of both hits and the "
                          "other misses; 0.5: as often",
                          0, 0, 1}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            if (values[2] == 0) return ranked_by_importance(values[0], values[1]);
            return std::make_unique<Cautious>(values[0], values[1], values[2], setting);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
