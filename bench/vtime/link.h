#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "prefetch/access.h"

namespace farpage::vtime {

// The way to a tier, in virtual time: it carries one page after another, each of which arrives a
// latency after it has left. A demand goes before every prefetch that has not begun, and interrupts
// none that has.
class Link {
 public:
  // Time stands still there, some 146 years on: whoever asks has passed what can be told apart.
  static constexpr uint64_t kEndNs = uint64_t{1} << 62;
  // Of a latency, and of a page's time on the way.
  static constexpr uint64_t kMostNs = uint64_t{1} << 60;

  struct Arrival {
    prefetch::PageNumber page = 0;
    uint64_t issued_in = 0;  // a step
    uint64_t at_ns = 0;
  };

  Link(uint64_t latency_ns, uint64_t transfer_ns)
      : latency_ns_(latency_ns), transfer_ns_(transfer_ns) {}

  // When a page that is demanded now arrives. What could have begun before now has: begin_until().
  uint64_t demand(uint64_t now_ns);
  void prefetch(prefetch::PageNumber page, uint64_t step, uint64_t now_ns);
  // Those that begin before `now_ns`, in the order in which they arrive.
  std::vector<Arrival> begin_until(uint64_t now_ns);
  void give_up_all() { waiting_.clear(); }  // that has not begun

  uint64_t waited_ns() const { return waited_ns_; }  // by demands, before they began

 private:
  struct Waiting {
    prefetch::PageNumber page;
    uint64_t step;
    uint64_t since_ns;
  };

  const uint64_t latency_ns_;
  const uint64_t transfer_ns_;
  uint64_t free_at_ns_ = 0;
  uint64_t waited_ns_ = 0;
  std::deque<Waiting> waiting_;  // prefetches
};

}  // namespace farpage::vtime
