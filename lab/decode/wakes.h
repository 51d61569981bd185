#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "lab/decode/decode_options.h"
#include "lab/decode/script.h"

namespace farpage::decode {

// A page comes back in this head; where that goes first, others may follow.
struct Wake {
  uint64_t step;
  uint32_t position;
  uint32_t head;
  bool goes_first;

  bool operator>(const Wake& other) const {
    return std::tie(step, position, head, goes_first) >
           std::tie(other.step, other.position, other.head, other.goes_first);
  }
};

// When pages come back. As many as should be in bursts are moved to the burst that is next to their
// time, if that does not change the gap by more than half.
class Wakes {
 public:
  Wakes(const DecodeOptions& options, const Script& script) : options_(options), script_(script) {}

  // So many pages are to wake, a gap from now.
  void schedule(Random& random, uint64_t now, double gap_factor, uint32_t position, uint32_t head,
                double pages);
  // A head copies what another woke in this step: in it, or in one of those that follow.
  void follow(Random& random, uint64_t now, uint32_t position, uint32_t head);
  // Of this step, one after another.
  std::optional<Wake> next(uint64_t step);
  // So many have woken by themselves in a burst.
  void note_burst(double pages);

 private:
  uint64_t burst_near(uint64_t now, uint64_t step) const;

  const DecodeOptions& options_;
  const Script& script_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> queue_;
  double pages_ = 0;
  double pages_in_bursts_ = 0;
};

}  // namespace farpage::decode
