#pragma once

#include <cstdint>

#include "bench/analyse/finding.h"
#include "bench/analyse/reuse.h"
#include "bench/analyse/steps.h"

namespace farpage::analyse {

// Asked of a trace while it is read once, step by step. On one thread.
class Question {
 public:
  virtual ~Question() = default;

  // `reuse` knows all steps up to this one.
  virtual void step(const Step& step, const Ahead& ahead, const Reuse& reuse) = 0;
  virtual Finding end(uint64_t seed) const = 0;
};

}  // namespace farpage::analyse
