#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// Pages are numbered as they are first named, and so as they were written. A number is given again
// once all have been given.
class Recency final : public SteadyScorer {
 public:
  void on_access(const Access&) override {}
  void on_forget(PageNumber page) override { given_again_.at(page) = ++last_given_; }
  double score(PageNumber page, uint64_t) const override {
    const uint64_t given = given_again_[page];
    return static_cast<double>(given == 0 ? page : given);
  }

 private:
  PerPage<uint64_t> given_again_;  // the place among all numbers that were ever given; 0: its own
  uint64_t last_given_ = UINT32_MAX;
};

}  // namespace

// TTKV: the newest tokens stay, whatever is used of the others.
PolicyInfo recency() {
  return {.name = "recency",
          .what = "the page that was first named longest ago goes, as often as it comes",
          .parameters = {},
          .make = [](const Setting&, Values) -> std::unique_ptr<Policy> {
            return evict_by(std::unique_ptr<SteadyScorer>(std::make_unique<Recency>()));
          }};
}

}  // namespace farpage::prefetch
