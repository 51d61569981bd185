#include "tier/push/push_landing.h"

namespace farpage {

bool PushLanding::awaited(uint32_t counter) const {
  return last_[counter] && arrivals_.arrived(*last_[counter]) == 0;
}

std::optional<uint32_t> PushLanding::begin(uint32_t groups) {
  uint32_t free = 0;  // in a row, before next_counter_
  for (uint32_t tried = 0; free < groups; ++tried) {
    if (tried == 2 * kTransferCounters) return std::nullopt;
    free = awaited(next_counter_) ? 0 : free + 1;
    next_counter_ = (next_counter_ + 1) % kTransferCounters;
  }
  generation_ = (generation_ + 1) % kTransferGenerations;
  const uint32_t counter = (next_counter_ - groups) % kTransferCounters;
  const uint32_t first = make_immediate(counter, generation_);
  for (uint32_t group = 0; group < groups; ++group) {
    last_[(counter + group) % kTransferCounters] = group_immediate(first, group);
  }
  return first;
}

bool PushLanding::poll() {
  std::array<uint32_t, 64> immediates;
  bool any = false;
  while (const size_t count = target_->poll(immediates)) {
    for (size_t i = 0; i < count; ++i) arrivals_.arrive(immediates[i]);
    any = true;
    if (count < immediates.size()) break;
  }
  return any;
}

}  // namespace farpage
