#include "prefetch/milestones/candidate_features.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace farpage::prefetch {
namespace {

constexpr uint32_t kMost = 63;  // of a value

uint32_t magnitude(uint64_t value) {
  return static_cast<uint32_t>(std::bit_width(value));
}

// In so many parts of one; what is no number is 0.
uint32_t parts(float value, float parts_of_one) {
  return value > 0 ? static_cast<uint32_t>(std::min(value * parts_of_one, 15.0F)) : 0;
}

uint32_t mass_magnitude(float mass) {
  return mass > 0 ? static_cast<uint32_t>(std::clamp(std::log2(mass) + 20, 1.0F, 20.0F)) : 0;
}

// Of three values from 0 to kMost.
constexpr uint32_t feature(uint32_t kind, uint32_t one, uint32_t two = 0, uint32_t three = 0) {
  return ((kind * (kMost + 1) + std::min(one, kMost)) * (kMost + 1) + std::min(two, kMost)) *
             (kMost + 1) +
         std::min(three, kMost);
}

}  // namespace

CandidateFeatures features_of(const Candidates::Candidate& candidate, const PageRecords& records,
                              const Segmenter& segmenter, uint64_t step) {
  const PageRecord& page = records[candidate.page];
  const PageRecord& trigger = records[candidate.trigger];
  const uint64_t turn = records.turns(page.head);
  const uint32_t relations = candidate.relations;
  const uint32_t triggers = magnitude(candidate.triggers);
  const auto since_trigger = static_cast<uint32_t>(step - candidate.trigger_step);
  const uint32_t age = magnitude(turn - page.last_turn);
  const uint32_t longest = magnitude(page.longest_gap);
  const uint32_t visits = magnitude(page.visits);
  const uint32_t entropy = parts(page.entropy, 4);
  const uint32_t margin = parts(page.margin, 2);
  const auto written = static_cast<uint32_t>(page.phase);
  const auto now = static_cast<uint32_t>(segmenter.phase());
  return {feature(1, 0),
          feature(2, relations),
          feature(3, relations, triggers),
          feature(4, relations, since_trigger),
          feature(5, triggers, since_trigger),
          feature(6, age),
          feature(7, age, longest),
          feature(8, magnitude(page.last_gap), age),
          feature(9, visits),
          feature(10, visits, triggers),
          feature(11, mass_magnitude(page.mass)),
          feature(12, magnitude(segmenter.steps_since_begin()), now),
          feature(13, written, now),
          feature(14, entropy, margin),
          feature(15, entropy, margin, triggers),
          feature(16, magnitude(turn - page.first_turn)),
          feature(17, magnitude(trigger.visits), relations),
          feature(18, parts(trigger.entropy, 4), parts(trigger.margin, 2), relations),
          feature(19, magnitude(trigger.last_gap), relations),
          feature(20, page.head % kMost, page.head / kMost)};
}

}  // namespace farpage::prefetch
