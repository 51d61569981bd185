#include <algorithm>

#include "prefetch/policies/policies.h"
#include "prefetch/touches.h"

namespace farpage::prefetch {
namespace {

class CostAware final : public DriftingScorer {
 public:
  CostAware(const Setting& setting, double frequency_weight, double size_penalty)
      : setting_(setting), frequency_weight_(frequency_weight), size_penalty_(size_penalty) {}

  void on_access(const Access& access) override { touches_.on_access(access); }
  void on_forget(PageNumber page) override { touches_.on_forget(page); }
  Parts parts(PageNumber page) const override {
    const double size = static_cast<double>(setting_.bytes_of(page)) / 1024.0;
    return {frequency_weight_ * static_cast<double>(touches_.count(page)), -(size_penalty_ * size)};
  }
  int64_t last_access(PageNumber page) const override { return touches_.last_step(page); }

 private:
  const Setting setting_;
  const double frequency_weight_;
  const double size_penalty_;
  Touches touches_;
};

}  // namespace

std::unique_ptr<DriftingScorer> cost_aware_scorer(const Setting& setting, Values values) {
  return std::make_unique<CostAware>(setting, values[0], values[1]);
}

// KV-Hierarchy-Lab's.
PolicyInfo cost_aware() {
  return {
      .name = "cost_aware",
      .what =
          "rarely accessed and large pages go first, then those accessed longest ago; sizes are "
          "known to `farpage-lab kvhl` alone, elsewhere all pages have one",
      .parameters = {{"frequency", "weight of an access", 2, 0, 1e6},
                     {"size", "penalty for each KiB", 0.4, 0, 1e6}},
      .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
        return evict_by(cost_aware_scorer(setting, values));
      }};
}

}  // namespace farpage::prefetch
