#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace farpage {

// How many requests one client may make: so many a second, and a tenth of that at once.
class RequestBudget {
 public:
  explicit RequestBudget(uint64_t requests_per_s) : each_ns_(kSecond / requests_per_s) {}

  // Takes one; for how long no further one is to be taken, 0 while there is room.
  uint64_t spend(uint64_t now_ns) {
    constexpr uint64_t kBurstNs = kSecond / 10;
    constexpr uint64_t kPauseNs = 10 * kMillisecond;  // so that a pause lets in more than one
    spent_until_ns_ = std::max(spent_until_ns_, now_ns - std::min(now_ns, kBurstNs)) + each_ns_;
    return spent_until_ns_ <= now_ns ? 0 : spent_until_ns_ - now_ns + kPauseNs;
  }

 private:
  uint64_t each_ns_;
  uint64_t spent_until_ns_ = 0;
};

}  // namespace farpage
