#include "lab/decode/script.h"

#include <algorithm>
#include <cmath>

#include "lab/decode/draw.h"
#include "lab/decode/streams.h"

namespace farpage::decode {
namespace {

// Steps from the beginning of a segment of so many tokens to its redraw.
uint64_t draw_lag(const DecodeOptions& options, Random& random, double tokens) {
  if (options.redraw_lag_steps == 0) return 0;
  const double lag = std::floor(draw_exponential(random, options.redraw_lag_steps));
  return static_cast<uint64_t>(std::min(lag, tokens - 1));
}

}  // namespace

double expected_segment_tokens(const DecodeOptions& options) {
  const double mean = options.segment_mean_tokens;
  const auto least = static_cast<double>(options.segment_least_tokens);
  const auto most = static_cast<double>(options.segment_most_tokens);
  return least + mean * (std::exp(-least / mean) - std::exp(-most / mean));
}

Phase draw_phase(const DecodeOptions& options, double unit) {
  if (unit < options.explore) return Phase::kExplore;
  return unit < options.explore + options.verify ? Phase::kVerify : Phase::kConclude;
}

Script::Script(const DecodeOptions& options)
    : page_tokens_(options.page_tokens),
      prompt_tokens_(options.prompt_tokens),
      prompt_positions_((options.prompt_tokens + options.page_tokens - 1) / options.page_tokens) {
  Random random = stream_of(options, Stream::kScript);
  steps_ = options.tokens > 0 ? options.tokens : draw_output_tokens(random, options);
  milestones_.resize(position_of(steps_ - 1) + 1);
  if (options.has_segments()) draw_segments(options, random);
  if (options.burst_steps == 0) return;
  // Where a segment draws anew, much wakes anyway.
  const double boundaries = options.has_segments() ? 1 / expected_segment_tokens(options) : 0;
  const double others = std::max(0.0, (options.burst_steps - boundaries) / (1 - boundaries));
  for (uint64_t step = 1; step < steps_; ++step) {
    if (draw_chance(random, others) || redraws(step)) burst_steps_.push_back(step);
  }
}

void Script::draw_segments(const DecodeOptions& options, Random& random) {
  const auto least = static_cast<double>(options.segment_least_tokens);
  const auto most = static_cast<double>(options.segment_most_tokens);
  uint64_t step = 0;
  while (step < steps_) {
    const Phase phase = draw_phase(options, random.unit());
    const double tokens =
        std::round(std::clamp(draw_exponential(random, options.segment_mean_tokens), least, most));
    segments_.push_back({step, phase, step + draw_lag(options, random, tokens)});
    step += static_cast<uint64_t>(tokens);
    const bool ends_in_milestone = draw_chance(random, options.milestones);
    if (!ends_in_milestone || step > steps_) continue;
    const uint64_t position = position_of(step - 1);
    // A page is at the end of one segment.
    if (position < prompt_positions_ || milestones_[position]) continue;
    milestones_[position] = true;
    ends_.push_back(step - 1);
  }
}

uint64_t Script::segment_at(uint64_t step) const {
  const auto after = std::ranges::upper_bound(segments_, step, {}, &Segment::begin_step);
  return static_cast<uint64_t>(after - segments_.begin()) - 1;
}

bool Script::begins_segment(uint64_t step) const {
  return std::ranges::binary_search(segments_, step, {}, &Segment::begin_step);
}

bool Script::redraws(uint64_t step) const {
  const auto of_it = std::ranges::lower_bound(segments_, step, {}, &Segment::redraw_step);
  return of_it != segments_.end() && of_it != segments_.begin() && of_it->redraw_step == step;
}

std::optional<uint64_t> Script::milestone_after(uint64_t step) const {
  if (!std::ranges::binary_search(ends_, step)) return std::nullopt;
  return position_of(step);
}

std::optional<uint64_t> Script::segment_of(uint64_t position) const {
  if (position < prompt_positions_ || segments_.empty()) return std::nullopt;
  return segment_at(position * page_tokens_ - prompt_tokens_);
}

Phase Script::phase_at(uint64_t step) const {
  return segments_[segment_at(step)].phase;
}

}  // namespace farpage::decode
