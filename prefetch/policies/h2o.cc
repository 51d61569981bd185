#include <set>
#include <vector>

#include "prefetch/page_heap.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// The newest pages that are resident, and the others by their mass.
class H2o final : public Policy {
 public:
  H2o(uint64_t budget_pages, double recent_share)
      : most_recent_(static_cast<size_t>(static_cast<double>(budget_pages) * recent_share)) {}

  void on_access(const Access& access) override {
    double& mass = masses_.at(access.page);
    mass += access.mass;
    if (heavy_.contains(access.page)) heavy_.change(access.page, mass);
  }
  void on_insert(PageNumber page, uint64_t) override {
    recent_.insert(page);
    if (recent_.size() <= most_recent_) return;
    const PageNumber oldest = *recent_.begin();
    recent_.erase(recent_.begin());
    heavy_.push(oldest, masses_[oldest]);
  }
  void on_evict(PageNumber page, uint64_t) override {
    if (recent_.erase(page) == 0) heavy_.remove(page);
  }
  PageNumber victim(uint64_t) override {
    return heavy_.size() > 0 ? heavy_.top() : *recent_.begin();
  }
  void set_aside(PageNumber page) override {
    if (heavy_.contains(page)) return heavy_.set_aside(page);
    recent_.erase(page);
    recent_aside_.push_back(page);
  }
  void put_back() override {
    heavy_.put_back();
    recent_.insert(recent_aside_.begin(), recent_aside_.end());
    recent_aside_.clear();
  }

 private:
  const size_t most_recent_;
  std::set<PageNumber> recent_;  // numbered as they are first named: the newest last
  std::vector<PageNumber> recent_aside_;
  PageHeap heavy_;
  PerPage<double> masses_;
};

}  // namespace

// H2O, with pages for tokens: half of the budget for heavy hitters, half for
// what is recent. A page that comes back finds its mass again.
PolicyInfo h2o() {
  return {.name = "h2o",
          .what = "of all but the newest pages, the one goes that has gathered the least attention",
          .parameters = {{"recent", "the share of the budget for the newest", 0.5, 0, 1}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<H2o>(setting.budget_pages, values[0]);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
