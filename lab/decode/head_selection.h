#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace farpage::decode {

inline constexpr uint32_t kNoPosition = UINT32_MAX;

// Which positions below `end`, the oldest of the recent ones, a head may draw from far memory.
struct FarRange {
  uint32_t sinks;
  uint32_t prompt;  // positions of the prompt are below it
  uint32_t end;
};

// The far pages that a head selects, in slots, and those that rest: that were selected not long
// ago, or were recent. All others sleep. Milestones do not rest.
class HeadSelection {
 public:
  HeadSelection(uint64_t slots, uint64_t resting_pages, double churn,
                const std::vector<bool>& milestones);

  const std::vector<uint32_t>& far() const { return far_; }  // by slot; kNoPosition: none
  bool sleeps(uint32_t position) const { return states_[position] == State::kAsleep; }

  // The page is not among the recent ones any more.
  void rest(uint32_t position);
  void churn(Random& random, const FarRange& range, double phoenix);
  // Puts a page that sleeps or rests into a slot; false: it was selected, or there is no slot.
  bool wake(uint32_t position, uint64_t step, Random& random);
  // The slot's page makes room for one that sleeps.
  void replace(size_t slot, uint32_t position, uint64_t step);
  // A page that sleeps and is no milestone: of the prompt with this probability, else of the
  // output. kNoPosition: none was found.
  uint32_t draw_asleep(Random& random, const FarRange& range, double phoenix) const;
  // Those that fell asleep since it was asked last.
  std::vector<uint32_t> take_fallen_asleep();

 private:
  enum class State : uint8_t { kAsleep, kFar, kResting };

  uint32_t draw_within(Random& random, uint32_t begin, uint32_t end) const;
  uint32_t take_resting(Random& random);

  const double churn_;
  const size_t resting_pages_;
  const std::vector<bool>& milestones_;
  std::vector<uint32_t> far_;
  std::vector<uint64_t> entered_;  // by slot: the step, and one
  std::vector<uint32_t> resting_;  // the newest is last
  std::vector<uint32_t> fallen_asleep_;
  std::vector<uint32_t> exchanged_;  // by churn(), which would otherwise allocate in every step
  std::vector<State> states_;        // by position
};

}  // namespace farpage::decode
