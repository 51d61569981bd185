#include "tier/push_landing.h"

#include <algorithm>

namespace farpage {

uint32_t PushLanding::awaited(uint32_t counter) const {
  const Transfer& transfer = transfers_[counter];
  const uint32_t here = arrivals_.arrived(make_immediate(counter, transfer.generation));
  return transfer.groups - std::min(here, transfer.groups);
}

std::optional<uint32_t> PushLanding::begin(uint32_t groups) {
  uint32_t all = groups;
  for (uint32_t counter = 0; counter < kTransferCounters; ++counter) all += awaited(counter);
  if (all > kMostAwaited) return std::nullopt;
  for (uint32_t tried = 0; tried < kTransferCounters; ++tried) {
    const uint32_t counter = next_counter_++ % kTransferCounters;
    if (awaited(counter) > 0) continue;
    Transfer& transfer = transfers_[counter];
    transfer.generation = (transfer.generation + 1) % kTransferGenerations;
    transfer.groups = groups;
    return make_immediate(counter, transfer.generation);
  }
  return std::nullopt;
}

bool PushLanding::poll() {
  std::array<Completion, 64> completions;
  bool any = false;
  while (const size_t count = channel_->poll(completions)) {
    for (size_t i = 0; i < count; ++i) {
      if (completions[i].kind != CompletionKind::kImmediate) continue;
      arrivals_.arrive(completions[i].immediate);
      any = true;
    }
    if (count < completions.size()) break;
  }
  return any;
}

}  // namespace farpage
