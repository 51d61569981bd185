#pragma once

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "control/link.h"

// What puts and removes ask of a primary has in common.
namespace farpage {

// Between two looks at the register, for a node that is in another epoch.
inline constexpr uint64_t kLooksPerView = 8;
inline constexpr uint64_t kLastWordNs = 5 * kMillisecond;

// A little less than what is left: so that a page which has to wait in vain does not keep back what
// the others came to.
inline uint64_t patience_of_node(uint64_t now_ns, uint64_t deadline_ns) {
  const uint64_t left = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  return left - std::min(left / 8, kLastWordNs);
}

inline bool is_of_other_epoch(const Result<Reply>& reply) {
  const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
  return refusal != nullptr && refusal->code == Code::kOtherEpoch;
}

}  // namespace farpage
