#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lab/analyse/measures/finding.h"
#include "lab/analyse/measures/labels.h"
#include "lab/analyse/questions/question.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

// H3, of labelled milestones: whether they come back more often than other pages (Welch's t-test).
class MilestoneQuestion final : public Question {
 public:
  explicit MilestoneQuestion(Milestones milestones) : milestones_(std::move(milestones)) {}

  void step(const Step& step, const Ahead& ahead, const Reuse& reuse) override;
  Finding end(uint64_t seed) const override;

 private:
  const Milestones milestones_;
  prefetch::PerPage<uint64_t> steps_;
};

}  // namespace farpage::analyse
