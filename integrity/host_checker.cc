#include "integrity/host_checker.h"

#include <algorithm>

#include "integrity/crc32c.h"

namespace farpage {
namespace {

class HostCheckers final : public CheckerFactory {
 public:
  Result<std::unique_ptr<Checker>> make(MemoryPlace place, size_t most) override {
    if (place.is_host()) return std::make_unique<HostChecker>(most);
    return fail(Code::kInvalid, "pages that land in " + place_name(place) +
                                    " cannot be checked, because nothing here counts CRCs there: "
                                    "let them land in host memory and copy them");
  }
};

}  // namespace

size_t HostChecker::begin(std::span<const PayloadCheck> checks) {
  const size_t taken = std::min(checks.size(), checks_.size() - count_);
  for (const PayloadCheck& check : checks.first(taken)) {
    const size_t at = first_ + count_++;
    checks_[at < checks_.size() ? at : at - checks_.size()] = check;
  }
  return taken;
}

size_t HostChecker::poll(std::span<CheckEnd> ends) {
  const size_t ended = std::min(ends.size(), count_);
  for (CheckEnd& end : ends.first(ended)) {
    const PayloadCheck& check = checks_[first_];
    const bool is_good = crc32c(0, check.data, check.bytes) == check.crc;
    end = {is_good ? CheckEnd::Outcome::kGood : CheckEnd::Outcome::kBad, check.tag};
    if (++first_ == checks_.size()) first_ = 0;
    --count_;
  }
  return ended;
}

CheckerFactory& host_checkers() {
  static HostCheckers factory;
  return factory;
}

}  // namespace farpage
