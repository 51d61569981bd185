#include <utility>
#include <vector>

#include "base/random.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

class RandomChoice final : public Policy {
 public:
  explicit RandomChoice(uint64_t seed) : random_(seed) {}

  void on_access(const Access&) override {}
  void on_insert(PageNumber page, uint64_t) override { add(page); }
  void on_evict(PageNumber page, uint64_t) override { remove(page); }
  PageNumber victim(uint64_t) override { return resident_[random_.below(resident_.size())]; }
  void set_aside(PageNumber page) override {
    remove(page);
    aside_.push_back(page);
  }
  void put_back() override {
    for (const PageNumber page : aside_) add(page);
    aside_.clear();
  }

 private:
  void add(PageNumber page) {
    places_.at(page) = resident_.size();
    resident_.push_back(page);
  }
  void remove(PageNumber page) {
    const size_t place = places_[page];
    places_.at(resident_.back()) = place;
    std::swap(resident_[place], resident_.back());
    resident_.pop_back();
  }

  Random random_;
  std::vector<PageNumber> resident_;
  PerPage<size_t> places_;
  std::vector<PageNumber> aside_;
};

}  // namespace

PolicyInfo random_choice() {
  return {.name = "random",
          .what = "any page goes, each as likely as any other",
          .parameters = {{"seed", "of the draws", 1, 0, 0x1p53}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<RandomChoice>(static_cast<uint64_t>(values[0]));
          }};
}

}  // namespace farpage::prefetch
