#pragma once

#include <cstdint>
#include <span>

#include "prefetch/access.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Cuts what a model writes into reasoning steps, called segments. Where the engine marks that one
// begins (Access::mark), there; where it marks none, where a token was far less certain than usual
// (its entropy above the running mean by three deviations), or where attention turned elsewhere (as
// many standard deviations more of the pages that a step demands were not in the step before). A
// segment has eight steps at least, unless the engine says otherwise. On one thread.
class Segmenter {
 public:
  // Of one step.
  void on_step(std::span<const Access> accesses);
  // Another page has this number.
  void on_forget(PageNumber page) { demanded_in_.at(page) = 0; }

  uint32_t segment() const { return segment_; }  // of the last step, from 0
  uint64_t steps_since_begin() const { return steps_ - begun_; }
  // The purpose of a segment that the engine named last; kNone: it never did.
  Mark phase() const { return phase_; }

 private:
  static constexpr uint64_t kLeastSteps = 8;

  // A moving mean and deviation, that tell whether a value stands out.
  class Usual {
   public:
    bool stands_out(double value);

   private:
    double mean_ = 0;
    double variance_ = 0;
    uint64_t values_ = 0;
  };

  double new_share(std::span<const Access> accesses);
  void begin_segment();

  uint64_t steps_ = 0;
  uint64_t begun_ = 0;
  uint32_t segment_ = 0;
  Mark phase_ = Mark::kNone;
  bool is_marked_ = false;  // ever
  Usual entropy_;
  Usual shift_;
  PerPage<uint64_t> demanded_in_;  // the last step
};

}  // namespace farpage::prefetch
