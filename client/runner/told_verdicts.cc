#include "client/runner/told_verdicts.h"

#include <cstddef>

namespace farpage {

void count_told(const Submission& submission, LaneCounters& counters) {
  const size_t count = submission.verdicts.size();
  for (size_t i = 0; i < count; ++i) {
    const PageVerdict& verdict = submission.verdicts[i];
    const bool ends_fetch = i + 1 == count;
    if (verdict.verdict == Verdict::kReady) {
      const uint64_t bytes = submission.requests[i].destination.bytes;
      counters.count_ready(1, bytes, verdict.took_ns, ends_fetch);
    } else {
      counters.count_recompute(verdict.reason, verdict.took_ns, ends_fetch);
    }
  }
}

}  // namespace farpage
