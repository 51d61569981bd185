#pragma once

#include <vector>

#include "integrity/checker.h"

namespace farpage {

// Checks host memory on the calling thread, within poll(): ends come in the order of their checks.
class HostChecker final : public Checker {
 public:
  explicit HostChecker(size_t most) : checks_(most) {}

  size_t begin(std::span<const PayloadCheck> checks) override;
  size_t poll(std::span<CheckEnd> ends) override;

 private:
  std::vector<PayloadCheck> checks_;  // a ring
  size_t first_ = 0;
  size_t count_ = 0;
};

// Makes HostCheckers, and refuses any other place.
CheckerFactory& host_checkers();

}  // namespace farpage
