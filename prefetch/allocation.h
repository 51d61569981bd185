#pragma once

#include <cstdint>
#include <span>

#include "prefetch/access.h"

namespace farpage::prefetch {

// Divides a budget of pages among the heads of all layers. On one thread.
class Allocation {
 public:
  virtual ~Allocation() = default;

  // Whether the shares are others from this access on, which is not yet among what they follow.
  virtual bool on_access(const Access& access) = 0;
  // In pages, by head; they add up to the budget. Valid until the next access.
  virtual std::span<const uint64_t> shares() const = 0;
};

}  // namespace farpage::prefetch
