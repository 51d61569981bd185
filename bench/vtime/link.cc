#include "bench/vtime/link.h"

#include <algorithm>

namespace farpage::vtime {

uint64_t Link::demand(uint64_t now_ns) {
  const uint64_t begin_ns = std::max(free_at_ns_, now_ns);
  waited_ns_ += begin_ns - now_ns;
  free_at_ns_ = std::min(begin_ns + transfer_ns_, kEndNs);
  return free_at_ns_ + latency_ns_;
}

void Link::prefetch(prefetch::PageNumber page, uint64_t step, uint64_t now_ns) {
  waiting_.push_back({page, step, now_ns});
}

std::vector<Link::Arrival> Link::begin_until(uint64_t now_ns) {
  std::vector<Arrival> begun;
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    const uint64_t begin_ns = std::max(free_at_ns_, next.since_ns);
    if (begin_ns >= now_ns) break;
    free_at_ns_ = std::min(begin_ns + transfer_ns_, kEndNs);
    begun.push_back({next.page, next.step, free_at_ns_ + latency_ns_});
    waiting_.pop_front();
  }
  return begun;
}

}  // namespace farpage::vtime
