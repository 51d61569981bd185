#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// Accesses since the page came, as most caches count: what goes loses its count.
class Lfu final : public SteadyScorer {
 public:
  void on_access(const Access& access) override { ++counts_.at(access.page); }
  void on_evict(PageNumber page, uint64_t) override { counts_.at(page) = 0; }
  void on_forget(PageNumber page) override { counts_.at(page) = 0; }
  double score(PageNumber page, uint64_t) const override {
    return static_cast<double>(counts_[page]);
  }

 private:
  PerPage<uint64_t> counts_;
};

}  // namespace

PolicyInfo lfu() {
  return {.name = "lfu",
          .what = "the page accessed least often since it came goes",
          .parameters = {},
          .make = [](const Setting&, Values) -> std::unique_ptr<Policy> {
            return evict_by(std::unique_ptr<SteadyScorer>(std::make_unique<Lfu>()));
          }};
}

}  // namespace farpage::prefetch
