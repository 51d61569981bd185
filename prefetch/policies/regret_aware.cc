#include <algorithm>

#include "prefetch/policies/policies.h"
#include "prefetch/touches.h"

namespace farpage::prefetch {
namespace {

struct Weights {
  double frequency;
  double regret;
  double decay;
  double horizon;
};

// A page that is wanted again soon after it went leaves regret, which fades with each access to it.
class RegretAware final : public DriftingScorer {
 public:
  explicit RegretAware(const Weights& weights) : weights_(weights) {}

  void on_access(const Access& access) override {
    touches_.on_access(access);
    double& regret = regret_.at(access.page);
    regret *= weights_.decay;
    int64_t& evicted = evicted_.at(access.page);
    if (evicted < 0) return;
    const double gap = static_cast<double>(access.step) - static_cast<double>(evicted);
    if (gap <= weights_.horizon) regret += (weights_.horizon - gap + 1) / weights_.horizon;
    evicted = -1;
  }
  void on_evict(PageNumber page, uint64_t step) override {
    evicted_.at(page) = static_cast<int64_t>(step);
  }
  void on_forget(PageNumber page) override {
    touches_.on_forget(page);
    regret_.at(page) = 0;
    evicted_.at(page) = -1;
  }
  Parts parts(PageNumber page) const override {
    return {weights_.frequency * static_cast<double>(touches_.count(page)),
            weights_.regret * regret_[page]};
  }
  int64_t last_access(PageNumber page) const override { return touches_.last_step(page); }

 private:
  const Weights weights_;
  Touches touches_;
  PerPage<double> regret_;
  PerPage<int64_t> evicted_ = PerPage<int64_t>(-1);  // the step; -1: not since its last access
};

}  // namespace

std::unique_ptr<DriftingScorer> regret_aware_scorer(const Setting&, Values values) {
  return std::make_unique<RegretAware>(Weights{values[0], values[1], values[2], values[3]});
}

// KV-Hierarchy-Lab's.
PolicyInfo regret_aware() {
  return {.name = "regret_aware",
          .what = "rarely accessed pages go first, and last those that were missed after they went",
          .parameters = {{"frequency", "weight of an access", 1.5, 0, 1e6},
                         {"regret", "weight of regret", 6, 0, 1e6},
                         {"decay", "what an access leaves of the page's regret", 0.98, 0, 1},
                         {"horizon", "steps after which nothing is regretted", 24, 1, 1e9}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return evict_by(regret_aware_scorer(setting, values));
          }};
}

}  // namespace farpage::prefetch
