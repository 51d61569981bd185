#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "lab/decode/decode_options.h"

namespace farpage::decode {

// The purpose of a step of reasoning, numbered as the phases of prefetch::Mark.
enum class Phase : uint8_t { kExplore, kVerify, kConclude };

struct Segment {
  uint64_t begin_step = 0;
  Phase phase = Phase::kExplore;
  uint64_t redraw_step = 0;  // when it draws pages anew: not before it begins, nor after its end
};

// The truth about the tokens of an output, all of it drawn before the first step. A position is the
// place of a page in its head: all heads have the same positions.
class Script {
 public:
  explicit Script(const DecodeOptions& options);

  uint64_t steps() const { return steps_; }
  const std::vector<Segment>& segments() const { return segments_; }  // by step
  const std::vector<uint64_t>& burst_steps() const { return burst_steps_; }
  const std::vector<bool>& milestones() const { return milestones_; }  // by position
  bool begins_segment(uint64_t step) const;
  // The first segment found all as it was.
  bool redraws(uint64_t step) const;
  // Where the segment ends of which this is the last step, if it ends in a milestone.
  std::optional<uint64_t> milestone_after(uint64_t step) const;

  uint64_t position_of(uint64_t step) const { return (prompt_tokens_ + step) / page_tokens_; }
  uint64_t positions() const { return milestones_.size(); }
  // The positions of pages that begin in the prompt are below it.
  uint64_t prompt_positions() const { return prompt_positions_; }
  // In which a position's first token is; none: that is in the prompt, or there are no segments.
  std::optional<uint64_t> segment_of(uint64_t position) const;
  Phase phase_at(uint64_t step) const;

 private:
  void draw_segments(const DecodeOptions& options, Random& random);
  uint64_t segment_at(uint64_t step) const;

  uint64_t page_tokens_;
  uint64_t prompt_tokens_;
  uint64_t prompt_positions_;
  uint64_t steps_;
  std::vector<Segment> segments_;
  std::vector<uint64_t> ends_;  // the last steps of the segments that end in a milestone
  std::vector<bool> milestones_;
  std::vector<uint64_t> burst_steps_;
};

// Of segments that are drawn from an exponential distribution and cut to their bounds.
double expected_segment_tokens(const DecodeOptions& options);
Phase draw_phase(const DecodeOptions& options, double unit);

}  // namespace farpage::decode
