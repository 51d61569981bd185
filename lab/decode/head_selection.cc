#include "lab/decode/head_selection.h"

#include <algorithm>
#include <utility>

#include "lab/decode/draw.h"

namespace farpage::decode {
namespace {

constexpr int kTries = 16;

}  // namespace

HeadSelection::HeadSelection(uint64_t slots, uint64_t resting_pages, double churn,
                             const std::vector<bool>& milestones)
    : churn_(churn),
      resting_pages_(resting_pages),
      milestones_(milestones),
      far_(slots, kNoPosition),
      entered_(slots),
      states_(milestones.size()) {}

void HeadSelection::rest(uint32_t position) {
  states_[position] = State::kAsleep;
  if (milestones_[position]) return;
  states_[position] = State::kResting;
  resting_.push_back(position);
  if (resting_.size() <= resting_pages_) return;
  const uint32_t oldest = resting_.front();
  resting_.erase(resting_.begin());
  states_[oldest] = State::kAsleep;
  fallen_asleep_.push_back(oldest);
}

// Pages that leave rest only when all have come, or some would be back in the same step.
void HeadSelection::churn(Random& random, const FarRange& range, double phoenix) {
  exchanged_.clear();
  for (uint32_t& slot : far_) {
    if (slot != kNoPosition && !draw_chance(random, churn_)) continue;
    const uint32_t next =
        resting_.empty() ? draw_asleep(random, range, phoenix) : take_resting(random);
    if (next == kNoPosition) continue;
    states_[next] = State::kFar;
    const uint32_t before = std::exchange(slot, next);
    if (before != kNoPosition) exchanged_.push_back(before);
  }
  for (const uint32_t position : exchanged_) rest(position);
}

bool HeadSelection::wake(uint32_t position, uint64_t step, Random& random) {
  if (states_[position] == State::kFar || far_.empty()) return false;
  // A page that woke in this step is not driven out in it, as long as there is another.
  size_t slot = random.below(far_.size());
  for (size_t tried = 0; tried < far_.size() && entered_[slot] == step + 1; ++tried) {
    slot = (slot + 1) % far_.size();
  }
  if (states_[position] == State::kResting) std::erase(resting_, position);
  replace(slot, position, step);
  return true;
}

void HeadSelection::replace(size_t slot, uint32_t position, uint64_t step) {
  states_[position] = State::kFar;
  entered_[slot] = step + 1;
  const uint32_t before = std::exchange(far_[slot], position);
  if (before != kNoPosition) rest(before);
}

uint32_t HeadSelection::draw_asleep(Random& random, const FarRange& range, double phoenix) const {
  const bool is_of_prompt = draw_chance(random, phoenix);
  const uint32_t prompt_end = std::min(range.prompt, range.end);
  const uint32_t found = is_of_prompt ? draw_within(random, range.sinks, prompt_end)
                                      : draw_within(random, range.prompt, range.end);
  // At first there is no output, or too little.
  return found != kNoPosition || is_of_prompt ? found
                                              : draw_within(random, range.sinks, prompt_end);
}

uint32_t HeadSelection::draw_within(Random& random, uint32_t begin, uint32_t end) const {
  for (int tried = 0; tried < kTries && begin < end; ++tried) {
    const auto position = begin + static_cast<uint32_t>(random.below(end - begin));
    if (sleeps(position) && !milestones_[position]) return position;
  }
  return kNoPosition;
}

// The later it came, the likelier.
uint32_t HeadSelection::take_resting(Random& random) {
  const uint64_t index = std::max(random.below(resting_.size()), random.below(resting_.size()));
  const uint32_t position = resting_[index];
  resting_.erase(resting_.begin() + static_cast<ptrdiff_t>(index));
  return position;
}

std::vector<uint32_t> HeadSelection::take_fallen_asleep() {
  return std::exchange(fallen_asleep_, {});
}

}  // namespace farpage::decode
