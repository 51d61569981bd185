#include <array>
#include <vector>

#include "prefetch/policies/policies.h"
#include "prefetch/touches.h"

namespace farpage::prefetch {
namespace {

class WindowedRecency final : public SteadyScorer {
 public:
  explicit WindowedRecency(size_t window) : window_(window) {}

  void on_access(const Access& access) override {
    touches_.on_access(access);
    ++in_window_.at(access.page);
    PageNumber& oldest = window_[accesses_ % window_.size()];
    has_left_ = accesses_ >= window_.size();
    if (has_left_) leave(oldest);
    oldest = access.page;
    ++accesses_;
  }
  void on_forget(PageNumber page) override {
    touches_.on_forget(page);
    forgotten_.at(page) += in_window_[page];
    in_window_.at(page) = 0;
  }
  std::span<const PageNumber> also_changed() const override {
    return std::span(left_).first(has_left_ ? 1 : 0);
  }
  double score(PageNumber page, uint64_t) const override {
    return static_cast<double>(in_window_[page]) * 1e6 +
           static_cast<double>(touches_.last_step(page));
  }

 private:
  // Accesses to pages that had this number before leave before those to the one that has it.
  void leave(PageNumber page) {
    left_[0] = page;
    --(forgotten_[page] > 0 ? forgotten_ : in_window_).at(page);
  }

  Touches touches_;
  PerPage<uint32_t> in_window_;
  PerPage<uint32_t> forgotten_;     // accesses in the window, to pages that had the number before
  std::vector<PageNumber> window_;  // a ring of the last accesses
  uint64_t accesses_ = 0;
  std::array<PageNumber, 1> left_ = {};
  bool has_left_ = false;
};

}  // namespace

std::unique_ptr<SteadyScorer> windowed_recency_scorer(const Setting&, Values values) {
  return std::make_unique<WindowedRecency>(static_cast<size_t>(values[0]));
}

// KV-Hierarchy-Lab's.
PolicyInfo windowed_recency() {
  return {.name = "windowed_recency",
          .what = "the page goes that came least often among the last accesses, then longest ago",
          .parameters = {{"window", "how many accesses are the last", 32, 1, 1e8}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return evict_by(windowed_recency_scorer(setting, values));
          },
          .own_bytes =
              [](Values values) { return static_cast<uint64_t>(values[0]) * sizeof(PageNumber); }};
}

}  // namespace farpage::prefetch
