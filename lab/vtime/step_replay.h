#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/histogram.h"
#include "lab/vtime/near_memory.h"
#include "lab/vtime/timed_replay.h"
#include "lab/vtime/wire.h"
#include "prefetch/policy.h"

namespace farpage::vtime {

// An engine's near memory, with what decides what is in it, over a wire: step by step as replay()
// says, whatever the wire's clock. On one thread.
class StepReplay {
 public:
  // All of them outlive it. Of the options, the tiers are the wire's.
  StepReplay(uint64_t pages, uint64_t budget_pages, const TimedOptions& options, Wire& wire,
             prefetch::Policy& policy, prefetch::Prefetcher& prefetcher);

  void step(std::span<const prefetch::Access> accesses);
  // All but what only the wire knows.
  TimedResult end();

 private:
  using Access = prefetch::Access;
  using PageNumber = prefetch::PageNumber;

  using State = Wire::State;

  struct Page {
    bool is_made = false;
    uint64_t demanded_in = 0;  // the last step that did, counted from 1
    uint64_t named_in = 0;     // likewise, by the prefetcher
    size_t rank = 0;           // among what it named
    uint64_t expected_in = 0;  // likewise, and then it was to be fetched
  };

  bool is_demanded(const Page& page) const { return page.demanded_in == result_.steps; }
  // Where the prefetcher named it after the step before.
  size_t rank(const Page& page) const {
    return page.named_in + 1 == result_.steps ? page.rank : candidates_.size();
  }

  // The last step in which it can be of use that it was fetched ahead.
  uint64_t last_step(const Page& page) const { return page.expected_in + useful_steps_; }

  void begin_step(std::span<const Access> accesses);
  void demand(const Access& access);
  void land();
  bool make_room_for(const Page& page);
  void leave(PageNumber page);
  void leave_memory(PageNumber page);
  void ask_prefetcher();
  void wait_for_demands(uint64_t begin_ns);
  double quantile(const Histogram& histogram, double q) const;

  const uint64_t budget_pages_;
  const uint64_t prefetch_pages_;
  const uint64_t useful_steps_;
  const uint64_t compute_ns_;
  Wire& wire_;
  prefetch::Policy& policy_;
  prefetch::Prefetcher& prefetcher_;
  NearMemory near_;
  std::vector<Page> pages_;
  std::vector<PageNumber> candidates_;
  std::vector<PageNumber> expected_;  // of these, what is to be fetched
  std::vector<PageNumber> left_;      // in this step, some of which may be near again
  uint64_t awaited_ = 0;              // pages that the step waits for
  uint64_t step_ = 0;
  TimedResult result_;
  Histogram stalls_;
  Histogram demands_;
  uint64_t longest_ns_ = 0;
};

}  // namespace farpage::vtime
