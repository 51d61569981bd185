#include <memory>
#include <vector>

#include "prefetch/allocations/allocations.h"
#include "prefetch/allocations/shares.h"

namespace farpage::prefetch {
namespace {

class Even final : public Allocation {
 public:
  explicit Even(const Setting& setting)
      : shares_(divide(setting.budget_pages, std::vector<double>(setting.layout.all(), 1))) {}

  bool on_access(const Access&) override { return false; }
  std::span<const uint64_t> shares() const override { return shares_; }

 private:
  const std::vector<uint64_t> shares_;
};

}  // namespace

AllocationInfo even() {
  return {.name = "even",
          .what = "each head has the same share of the budget",
          .parameters = {},
          .make = [](const Setting& setting, Values) -> std::unique_ptr<Allocation> {
            return std::make_unique<Even>(setting);
          }};
}

}  // namespace farpage::prefetch
