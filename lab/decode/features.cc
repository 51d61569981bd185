#include "lab/decode/features.h"

#include <algorithm>

#include "lab/decode/draw.h"
#include "lab/decode/streams.h"

namespace farpage::decode {
namespace {

using prefetch::Mark;

// Nats, and differences of logits. The two kinds of tokens do not overlap.
constexpr double kMostSureEntropy = 0.5;
constexpr double kLeastUnsureEntropy = 0.6;
constexpr double kMeanUnsureEntropy = 0.9;  // above the least
constexpr double kLeastSureMargin = 5.5;
constexpr double kMeanSureMargin = 3;  // above the least
constexpr double kMostUnsureMargin = 5;

Mark mark_of(Phase phase) {
  return static_cast<Mark>(static_cast<uint8_t>(Mark::kExplores) + static_cast<uint8_t>(phase));
}

}  // namespace

Features::Features(const DecodeOptions& options, const Script& script)
    : options_(options), script_(script), random_(stream_of(options, Stream::kFeatures)) {
  if (!options.has_segments()) return;
  const auto page_tokens = static_cast<double>(options.page_tokens);
  sure_by_chance_ =
      std::min(1.0, options.milestones * page_tokens / expected_segment_tokens(options));
  draw_marks();
}

// Those that are told as they are stand first, or others would give way to them.
void Features::draw_marks() {
  Random random = stream_of(options_, Stream::kMarks);
  uint64_t elsewhere = 0;
  for (const Segment& segment : script_.segments()) {
    if (!draw_chance(random, options_.informativeness)) {
      ++elsewhere;
      continue;
    }
    const bool tells_phase = draw_chance(random, options_.informativeness);
    const double unit = random.unit();
    marks_[segment.begin_step] = mark_of(tells_phase ? segment.phase : draw_phase(options_, unit));
  }
  while (elsewhere > 0) {
    const uint64_t step = random.below(script_.steps());
    elsewhere -= marks_.emplace(step, mark_of(draw_phase(options_, random.unit()))).second ? 1 : 0;
  }
}

bool Features::draw_sure(uint64_t position) {
  const bool by_chance = draw_chance(random_, sure_by_chance_);
  const bool is_told = draw_chance(random_, options_.informativeness);
  return is_told ? script_.milestones()[position] : by_chance;
}

TokenFeatures Features::of(uint64_t step) {
  const uint64_t position = script_.position_of(step);
  if (!is_known_ || position != position_) {
    position_ = position;
    is_known_ = true;
    is_sure_ = draw_sure(position);
  }
  const double exponential = draw_exponential(random_, 1);
  const double unit = random_.unit();
  TokenFeatures features;
  features.entropy = static_cast<float>(
      is_sure_ ? kMostSureEntropy * unit : kLeastUnsureEntropy + kMeanUnsureEntropy * exponential);
  features.margin = static_cast<float>(is_sure_ ? kLeastSureMargin + kMeanSureMargin * exponential
                                                : kMostUnsureMargin * unit);
  if (const auto mark = marks_.find(step); mark != marks_.end()) features.mark = mark->second;
  return features;
}

}  // namespace farpage::decode
