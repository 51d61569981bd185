#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "lab/paging/access_trace.h"

namespace farpage::analyse {

// The parts that intervals resample: the sequences of a trace, where it tells of several, else
// parts of consecutive steps, which stand for them.
class Parts {
 public:
  static constexpr size_t kOfSteps = 50;

  // Of a trace that tells of no sequences.
  explicit Parts(uint64_t steps) : steps_(steps) {}
  // Of sequences, which are the parts from 0 on; by step, as the trace numbers them.
  Parts(uint64_t steps, size_t sequences, std::vector<size_t> sequence_by_step)
      : steps_(steps), count_(sequences), sequence_by_step_(std::move(sequence_by_step)) {}

  uint64_t steps() const { return steps_; }
  size_t count() const { return count_; }
  bool are_sequences() const { return !sequence_by_step_.empty(); }
  // `step_index`: that of the access's step, counted from 0.
  size_t of(const prefetch::Access& access, uint64_t step_index) const {
    if (are_sequences()) return sequence_by_step_[access.step];
    return std::min<size_t>(step_index * kOfSteps / steps_, kOfSteps - 1);
  }

 private:
  uint64_t steps_;
  size_t count_ = kOfSteps;
  std::vector<size_t> sequence_by_step_;
};

// Reads all of it.
Result<Parts> parts_of(const paging::AccessTrace& trace);

}  // namespace farpage::analyse
