#include <cmath>
#include <limits>

#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// I ← α·s + (1 − α)·I in every step, where s is 0 for a page that is not accessed. All of them
// decay alike, so what is kept of one, log2 I − step · log2(1 − α), changes only with its accesses:
// one float32 a page.
class Importance final : public SteadyScorer {
 public:
  Importance(double alpha, double pinned)
      : alpha_(alpha), decay_(std::log2(1 - alpha)), pinned_(static_cast<PageNumber>(pinned)) {}

  void on_access(const Access& access) override {
    if (access.mass <= 0) return;
    float& kept = kept_.at(access.page);
    const double gained = static_cast<double>(access.step) * decay_;
    const double now = std::exp2(static_cast<double>(kept) + gained);
    kept = static_cast<float>(std::log2(now + alpha_ * static_cast<double>(access.mass)) - gained);
  }
  double score(PageNumber page, uint64_t) const override {
    if (page < pinned_) return std::numeric_limits<double>::infinity();
    return static_cast<double>(kept_[page]);
  }

 private:
  const double alpha_;
  const double decay_;  // of log2 I in a step
  const PageNumber pinned_;
  PerPage<float> kept_ = PerPage<float>(-std::numeric_limits<float>::infinity());
};

}  // namespace

// What the project's own prefetch starts from.
PolicyInfo importance() {
  return {.name = "importance",
          .what = "the page goes whose attention, as a moving average over the steps, is least",
          .parameters = {{"alpha", "the weight of a step in the average", 0.1, 0.001, 0.9},
                         {"pinned", "how many of the pages first named never go", 1, 0, 1e6}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return evict_by(
                std::unique_ptr<SteadyScorer>(std::make_unique<Importance>(values[0], values[1])));
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
