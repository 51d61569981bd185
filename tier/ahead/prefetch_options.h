#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "prefetch/scheduler.h"

namespace farpage {

struct PrefetchOptions {
  uint32_t landing_pages = 256;               // of registered memory for what is fetched ahead
  uint64_t page_bytes = 0;                    // of one of them; 0: as long as the nodes take
  uint32_t known_pages = 65'536;              // pages to remember, named by any source
  uint64_t patience_ns = 100 * kMillisecond;  // in which a page that is fetched ahead has to come
  uint32_t prefetch_pages = 64;               // that one plan names, at the most
  uint32_t heads = 1;                         // that the engine observes, through all layers
  // 0: each page is read. Otherwise the node pushes them, and says after so many that they are
  // there (PushOptions): one that serves alone, over a backend that pushes.
  uint32_t push_group_pages = 0;
  prefetch::SchedulerOptions scheduler = {};

  // At any time some page that is known is neither waiting nor under way nor here.
  Result<void> validate() const;
};

// The counts of a prefetch lane so far, on its thread.
struct PrefetchReport {
  prefetch::PrefetchAccount pages;
  // Now:
  uint64_t waiting = 0;
  uint64_t under_way = 0;
  uint64_t here = 0;          // and not demanded since they came
  uint64_t taken_places = 0;  // of the landing: with pages that are under way, here, or lent
  uint64_t window_pages = 0;
  uint64_t known_pages = 0;
  // So far:
  uint64_t forgotten_pages = 0;   // known no more, for others
  uint64_t unknown_keys = 0;      // in marks and withdrawals
  uint64_t malformed_events = 0;  // with what is no number, or a head that is none
  // Of pages that were demanded:
  uint64_t lent = 0;      // answered out of the landing
  uint64_t outdated = 0;  // ... not, for a newer version was there, or another length asked for
  uint64_t given_up = 0;  // under way for too long, and fetched by the demand itself
};

}  // namespace farpage
