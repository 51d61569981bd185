#include "prefetch/policies/policies.h"
#include "prefetch/touches.h"

namespace farpage::prefetch {
namespace {

class HeavyHitter final : public SteadyScorer {
 public:
  explicit HeavyHitter(double weight) : weight_(weight) {}

  void on_access(const Access& access) override { touches_.on_access(access); }
  void on_forget(PageNumber page) override { touches_.on_forget(page); }
  double score(PageNumber page, uint64_t) const override {
    return weight_ * static_cast<double>(touches_.count(page)) +
           static_cast<double>(touches_.last_step(page));
  }

 private:
  const double weight_;
  Touches touches_;
};

}  // namespace

std::unique_ptr<SteadyScorer> heavy_hitter_scorer(const Setting&, Values values) {
  return std::make_unique<HeavyHitter>(values[0]);
}

// KV-Hierarchy-Lab's.
PolicyInfo heavy_hitter() {
  return {.name = "heavy_hitter",
          .what = "the page goes that was accessed least often, ever, and then longest ago",
          .parameters = {{"weight", "of an access, in steps", 10'000, 0, 1e9}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return evict_by(heavy_hitter_scorer(setting, values));
          }};
}

}  // namespace farpage::prefetch
