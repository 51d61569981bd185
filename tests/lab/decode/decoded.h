#pragma once

#include <algorithm>
#include <vector>

#include "lab/decode/decode_generator.h"

namespace farpage::decode {

// Each head's reads in each step, by positions in order, as the trace tells.
struct Decoded {
  explicit Decoded(const DecodeOptions& options) : generator(options) {
    const uint64_t steps = generator.script().steps();
    read.resize(steps, std::vector<std::vector<uint32_t>>(options.all_heads()));
    std::vector<prefetch::Access> accesses;
    for (uint64_t step = 0; step < steps; ++step) {
      accesses.clear();
      generator.step(accesses);
      for (const prefetch::Access& access : accesses) {
        read[step][access.head].push_back(generator.pages()[access.page].position);
      }
      for (auto& positions : read[step]) std::ranges::sort(positions);
    }
  }

  // Pages that the head reads in this step and did not read in the one before, without the newest
  // page.
  std::vector<uint32_t> entered(uint64_t step, uint64_t head) const {
    std::vector<uint32_t> fresh;
    const auto newest = static_cast<uint32_t>(generator.script().position_of(step));
    std::ranges::set_difference(read[step][head], read[step - 1][head], std::back_inserter(fresh));
    std::erase(fresh, newest);
    return fresh;
  }

  DecodeGenerator generator;
  std::vector<std::vector<std::vector<uint32_t>>> read;  // by step, by head
};

// Nothing changes but what a test switches on.
inline DecodeOptions quiet() {
  DecodeOptions options;
  options.churn_stable = 0;
  options.churn_unstable = 0;
  options.redraw = 0;
  options.redraw_lag_steps = 0;
  options.return_spread_steps = 0;
  options.sleepers_return = 0;
  options.milestones = 0;
  options.burst_steps = 0;
  options.burst_wakes = 0;
  return options;
}

}  // namespace farpage::decode
