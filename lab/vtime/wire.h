#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "prefetch/access.h"
#include "prefetch/scheduler.h"

namespace farpage::vtime {

// All that lies below the near memory: pages come from there when they are demanded, or ahead of
// that when they are expected; and the clock by which they do. On one thread.
class Wire {
 public:
  using PageNumber = prefetch::PageNumber;
  using State = prefetch::Scheduler::State;

  // A page that a step waited for.
  struct Landed {
    PageNumber page = 0;
    bool is_ahead = false;  // it was under way before it was demanded
    bool is_whole = true;   // false: it did not come, and was made again
  };

  virtual ~Wire() = default;
  virtual uint64_t now_ns() const = 0;

  // Of each access of a step, before anything else of it: what its page was ahead until now. One
  // that was under way is waited for.
  virtual State demand(PageNumber page, uint64_t step) = 0;
  // It is neither near nor ahead, and is waited for: fetched by the next send() at the latest.
  virtual void fetch(PageNumber page) = 0;
  // The page that was accessed is near, or on its way; for who wants to know.
  virtual void on_access(const prefetch::Access&) {}
  virtual void send() = 0;
  // Lets time pass until a page has landed that is waited for, or until then.
  virtual std::optional<Landed> next(uint64_t until_ns) = 0;

  // Pages expected in the steps from this one on, likeliest first, and not ahead yet: a page of the
  // previous plan that waits and is not named does not come.
  virtual void plan(std::span<const PageNumber> expected, uint64_t step) = 0;
  virtual State state(PageNumber page) const = 0;
  virtual uint64_t under_way() const = 0;  // ahead
  // Those that have come ahead since this was last asked, and were not demanded meanwhile, until
  // it is asked again.
  virtual std::span<const PageNumber> arrived() = 0;
  // Of one that has come ahead: it is near from now on; its time is over, though it may stay near;
  // it has to go, or there is no room for it.
  virtual void hold(PageNumber) {}
  virtual void expire(PageNumber page) = 0;
  virtual void evict(PageNumber page) = 0;
  virtual prefetch::PrefetchAccount account() const = 0;

  // There was none before, and it is near.
  virtual void make(PageNumber) {}
  // It is near no more, and kept below.
  virtual void keep(PageNumber page) = 0;
  // Its memory is wanted no more: once the step that it left in has its pages, or when it has
  // landed and there is no room for it.
  virtual void forget(PageNumber page) = 0;
};

}  // namespace farpage::vtime
