#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock_gap.h"
#include "control/link.h"
#include "integrity/page_header.h"
#include "pagetable/geometry.h"
#include "tier/link/client_sources.h"
#include "tier/staging/staging.h"

namespace farpage {

// Lanes of a node that no caller uses any more; the next one that is opened replaces one of them.
// Thread-safe.
class RetiredLanes {
 public:
  void add(uint64_t lane) {
    std::lock_guard lock(mutex_);
    lanes_.push_back(lane);
  }
  uint64_t take() {
    std::lock_guard lock(mutex_);
    if (lanes_.empty()) return 0;
    const uint64_t lane = lanes_.back();
    lanes_.pop_back();
    return lane;
  }

 private:
  std::mutex mutex_;
  std::vector<uint64_t> lanes_;
};

// One run of one memory node, as this client knows it. Members that can change say so. A client
// uses no page that completed after the lease had ended (protocol rule 12); the lease counts from
// the moment its renewal was sent.
struct View {
  explicit View(uint32_t most_sources = 0) : sources(most_sources) {}

  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  uint64_t reuse_ns = 0;  // `read_window`
  uint64_t lease_ns = 0;  // `view_lease`
  Geometry geometry;
  std::shared_ptr<ControlLink> link;
  std::shared_ptr<Staging> staging;  // null: of a member, which neither puts nor tells its reads
  std::atomic<uint64_t> valid_until_ns{0};
  std::atomic<bool> connected{
      true};  // false once its link is known to be lost: no put can be taken

  ClockGap gap;  // when its lease was asked for; on the runtime only

  VerdictCounts told;  // to this run, under the link's lock

  SourcesAtNode sources;

  RetiredLanes retired_lanes;
  RetiredLanes retired_push_lanes;

  // An ended lease stays ended: 0 is never replaced.
  void renew(uint64_t until_ns) {
    uint64_t current = valid_until_ns.load(std::memory_order_relaxed);
    while (current != 0 && current < until_ns &&
           !valid_until_ns.compare_exchange_weak(current, until_ns, std::memory_order_release)) {
    }
  }

  bool valid(uint64_t now_ns) const {
    return now_ns < valid_until_ns.load(std::memory_order_acquire);
  }
};

}  // namespace farpage
