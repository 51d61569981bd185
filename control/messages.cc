#include "control/messages.h"

#include <algorithm>

namespace farpage {

void add_saturating(VerdictCounts& sum, const VerdictCounts& more) {
  for (const auto count : kVerdictCounts) {
    sum.*count += std::min(more.*count, UINT64_MAX - sum.*count);
  }
}

}  // namespace farpage
