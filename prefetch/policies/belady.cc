#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

class Belady final : public SteadyScorer {
 public:
  explicit Belady(const Future& future) : future_(future) {}

  void on_access(const Access& access) override {
    next_.at(access.page) = future_.next(access.number);
  }
  double score(PageNumber page, uint64_t) const override {
    return -static_cast<double>(next_[page]);
  }

 private:
  const Future& future_;
  PerPage<uint64_t> next_ = PerPage<uint64_t>(Future::kNever);
};

}  // namespace

// Belady, A study of replacement algorithms for a virtual-storage computer, 1966.
PolicyInfo belady() {
  return {
      .name = "belady",
      .what = "the page whose next access is farthest off goes: the best there can be",
      .parameters = {},
      .make = [](const Setting& setting, Values) -> std::unique_ptr<Policy> {
        return evict_by(std::unique_ptr<SteadyScorer>(std::make_unique<Belady>(*setting.future)));
      },
      .sees_future = true};
}

}  // namespace farpage::prefetch
