#pragma once

#include "lab/analyse/measures/top_mass.h"
#include "lab/analyse/questions/foretelling.h"
#include "lab/analyse/questions/question.h"

namespace farpage::analyse {

// H3: whether the fifth of the pages with the most attention so far is what the next ten steps
// demand. Of a trace with masses.
class AttentionQuestion final : public Question {
 public:
  explicit AttentionQuestion(size_t parts) : foretelling_(kAheadSteps, parts) {}

  void step(const Step& step, const Ahead& ahead, const Reuse& reuse) override;
  Finding end(uint64_t seed) const override;

 private:
  TopMass top_ = TopMass(0.2);
  Foretelling foretelling_;
};

}  // namespace farpage::analyse
