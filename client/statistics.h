#pragma once

#include <cstdint>

#include "control/status/status.h"

namespace farpage {

// The counts of a Farpage, without those of lanes that others drive. Each is as of a moment ago;
// they are not of one moment.
struct Statistics {
  // So far, of pages that have their verdict:
  VerdictCounts verdicts;  // of fetch(), and of exists() those that no index has answered
  uint64_t near = 0;       // of those that were ready: pages that were fetched ahead
  // So far:
  uint64_t fetched_ahead = 0;      // pages, demanded since or not
  uint64_t puts_acknowledged = 0;  // pages; of client()'s own puts too
  uint64_t puts_failed = 0;
  // Now:
  uint64_t ahead_places = 0;        // of ahead.pages, those in use
  uint64_t under_way = 0;           // operations that are not done
  uint64_t fetch_tickets_free = 0;  // so many more fetches are not refused
  uint64_t put_tickets_free = 0;    // ... and puts and removes

  uint64_t recompute() const {
    return verdicts.miss + verdicts.stale + verdicts.corrupt + verdicts.stalled +
           verdicts.unreachable + verdicts.slower;
  }
};

}  // namespace farpage
