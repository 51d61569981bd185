#include "prefetch/page_list.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

class Fifo final : public Policy {
 public:
  void on_access(const Access&) override {}
  void on_insert(PageNumber page, uint64_t) override { resident_.push_back(page); }
  void on_evict(PageNumber page, uint64_t) override { resident_.remove(page); }
  PageNumber victim(uint64_t) override { return resident_.front(); }
  void set_aside(PageNumber page) override { resident_.set_aside(page); }
  void put_back() override { resident_.put_back(); }

 private:
  PageList resident_;
};

}  // namespace

PolicyInfo fifo() {
  return {.name = "fifo",
          .what = "the page that came longest ago goes",
          .parameters = {},
          .make = [](const Setting&, Values) -> std::unique_ptr<Policy> {
            return std::make_unique<Fifo>();
          }};
}

}  // namespace farpage::prefetch
