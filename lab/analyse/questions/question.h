#pragma once

#include <cstdint>

#include "lab/analyse/measures/finding.h"
#include "lab/analyse/measures/reuse.h"
#include "lab/analyse/measures/steps.h"

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
