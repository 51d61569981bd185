#pragma once

#include <memory>
#include <utility>

#include "integrity/host_checker.h"
#include "transport/cuda/copies/landed_checker.h"

namespace farpage {

// For one lane: a checker for one GPU's memory, which is there already, and others for the host's.
class GpuCheckers final : public CheckerFactory {
 public:
  GpuCheckers(int device, std::unique_ptr<Checker> checker)
      : device_(device), checker_(std::move(checker)) {}

  Result<std::unique_ptr<Checker>> make(MemoryPlace place, size_t most) override {
    const bool is_there = !place.is_host() && place.device == device_ && checker_ != nullptr;
    if (is_there) return std::move(checker_);
    return host_checkers().make(place, most);  // which refuse any other place
  }

 private:
  const int device_;
  std::unique_ptr<Checker> checker_;  // null: the lane has it
};

}  // namespace farpage
