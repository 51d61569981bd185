#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "prefetch/registry/registry.h"

namespace farpage {

inline constexpr std::string_view kClock = "clock";

// The choice that node.eviction names: nothing for CLOCK, or a policy of prefetch as `farpage-lab
// policies` names it, s3fifo:small=0.1 for instance. A node hears of accesses and of nothing else,
// so one that needs signals, sees the future, or divides pages among heads is refused.
Result<std::optional<prefetch::ChosenPolicy>> choose_eviction(std::string_view text);

// At most, beside the pool, of so many stores with so many slots together: RankedPages, and what
// their policies keep.
uint64_t eviction_bytes(const std::optional<prefetch::ChosenPolicy>& policy, uint64_t slots,
                        uint64_t stores);

}  // namespace farpage
