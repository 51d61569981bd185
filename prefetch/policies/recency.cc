#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// Pages are numbered as they are first named, and so as they were written.
class Recency final : public SteadyScorer {
 public:
  void on_access(const Access&) override {}
  double score(PageNumber page, uint64_t) const override { return page; }
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
