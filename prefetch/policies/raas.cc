#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

class Raas final : public SteadyScorer {
 public:
  explicit Raas(double threshold) : threshold_(threshold) {}

  void on_access(const Access& access) override {
    stamped_.clear();
    if (access.step != step_) end_step();
    step_ = access.step;
    if (first_step_ == kNone) first_step_ = step_;
    uint64_t& stamp = stamps_.at(access.page);
    if (stamp == kNone) stamp = step_ == first_step_ ? kPinned : step_;
    const bool is_above = static_cast<double>(access.mass) >= threshold_;
    if (is_above) stamp = std::max(stamp, step_);
    OfStep& head = heads_[access.head];
    if (head.above == 0 && head.below.empty()) active_.push_back(access.head);
    head.above += is_above ? 1 : 0;
    if (!is_above) head.below.emplace_back(access.mass, access.page);
  }
  std::span<const PageNumber> also_changed() const override { return stamped_; }
  double score(PageNumber page, uint64_t) const override {
    return static_cast<double>(stamps_[page]);
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr uint64_t kPinned = kNone - 1;

  // A head's accesses in this step.
  struct OfStep {
    size_t above = 0;  // the threshold
    std::vector<std::pair<float, PageNumber>> below;
  };

  // Stamps what is below the threshold and yet in the upper half of its head's.
  void end_step() {
    for (const uint32_t name : active_) {
      OfStep& head = heads_[name];
      const size_t half = (head.above + head.below.size() + 1) / 2;
      const size_t more = half - std::min(half, head.above);
      std::ranges::nth_element(head.below, head.below.begin() + static_cast<ptrdiff_t>(more),
                               std::greater<>());
      head.below.resize(more);
      for (const auto& [mass, page] : head.below) {
        stamps_.at(page) = std::max(stamps_[page], step_);
        stamped_.push_back(page);
      }
      head.below.clear();
      head.above = 0;
    }
    active_.clear();
  }

  const double threshold_;
  uint64_t first_step_ = kNone;
  uint64_t step_ = 0;
  std::unordered_map<uint32_t, OfStep> heads_;
  std::vector<uint32_t> active_;     // heads that had accesses in this step
  std::vector<PageNumber> stamped_;  // as the last step has ended
  PerPage<uint64_t> stamps_ = PerPage<uint64_t>(kNone);
};

}  // namespace

// RaaS. The pages of the first step are the prompt.
PolicyInfo raas() {
  return {.name = "raas",
          .what =
              "the page goes whose attention was above a threshold, or in the upper half of its "
              "head's in a step, longest ago; what the first step names stays",
          .parameters = {{"threshold", "of the attention mass", 1e-4, 0, 1}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return evict_by(std::unique_ptr<SteadyScorer>(std::make_unique<Raas>(values[0])));
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
