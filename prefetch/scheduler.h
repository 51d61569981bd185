#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prefetch/page_list.h"
#include "prefetch/page_source.h"
#include "prefetch/per_page.h"
#include "prefetch/prefetch_window.h"

namespace farpage::prefetch {

struct SchedulerOptions {
  uint32_t most_waiting = 4'096;  // pages; what is named beyond them is refused
  uint32_t most_under_way = 32;   // pages, whatever demands feel of them
  uint64_t useful_steps = 10;     // within which a page that a plan named has to be used
};

// Outcomes of pages that were named. Each that has begun is under way, here, or one of timely,
// late, unused, evicted and failed.
struct PrefetchAccount {
  uint64_t asked = 0;      // that were neither waiting nor under way nor here
  uint64_t refused = 0;    // of others: too many waited
  uint64_t cancelled = 0;  // before they began: no longer expected
  uint64_t overtaken = 0;  // demanded before they began
  uint64_t begun = 0;
  uint64_t timely = 0;   // demanded once they were here
  uint64_t late = 0;     // demanded while under way
  uint64_t unused = 0;   // not demanded in their time
  uint64_t evicted = 0;  // not demanded before they had to go, or there was no room for them
  uint64_t failed = 0;   // that did not come

  uint64_t useful() const { return timely + late; }
};

// Fetches pages ahead of their demands: those that the last plan named, and then those that were
// announced. A page is never under way twice, and what is demanded is no prefetch any more, whether
// it waits (who demands it fetches it) or is under way (who demands it waits for it). How many are
// under way is up to what demands feel (PrefetchWindow). On one thread.
class Scheduler {
 public:
  enum class State : uint8_t {
    kNone,  // not fetched ahead
    kUnderWay,
    kJoined,  // under way, and demanded meanwhile
    kHere,    // and not demanded since it came
  };

  // `source` outlives it.
  Scheduler(const SchedulerOptions& options, PageSource& source)
      : options_(options), source_(source), window_(options.most_under_way) {
    before_.reserve(options.most_waiting);
  }

  // Takes memory for the pages below this one.
  void reserve(size_t pages) {
    pages_.reserve(pages);
    planned_.reserve(pages);
    announced_.reserve(pages);
  }

  // Pages expected in the steps from this one on, likeliest first: a page of the previous plan that
  // waits and is not named is cancelled.
  void plan(std::span<const PageNumber> pages, uint64_t step);
  // Pages expected at some time, of a request that waits for its turn, say; until they are
  // withdrawn. Of use whenever it is demanded, though a plan names it too.
  void announce(PageNumber page);
  void withdraw(PageNumber page);
  // The last plan need not have named it: one that waits for no other reason is cancelled.
  void cancel(PageNumber page);
  // One more that is not taken, whatever page it is, where as many wait as may.
  bool refuse();
  // A demand beside which no plan was made: what is held back for so many plans is not held back
  // for good.
  void on_unplanned_demand() { window_.on_plan(); }

  // As many as the window has room for, and the source takes.
  void begin();
  // One that has begun has come, or will not. Answers what it was until now: kUnderWay, kJoined.
  State on_landed(PageNumber page, bool is_whole);

  // Answers what it was until now; kJoined: it was demanded before.
  State demand(PageNumber page, uint64_t step);
  // As PrefetchWindow's. `beside`: is_beside(), before the first of its reads came.
  void on_demand(PrefetchWindow::Read read, uint64_t took_ns, bool beside) {
    window_.on_demand(read, took_ns, beside);
  }
  void on_waited_in_vain() { window_.on_waited_in_vain(); }
  bool is_beside() const { return under_way_ > 0; }

  // Of one that is here: its time is over, or it has to go.
  void expire(PageNumber page) { leave(page, account_.unused); }
  void evict(PageNumber page) { leave(page, account_.evicted); }

  State state(PageNumber page) const { return pages_[page].state; }
  uint64_t last_step(PageNumber page) const { return pages_[page].last_step; }  // once begun
  bool waits(PageNumber page) const { return planned_.contains(page) || announced_.contains(page); }
  uint64_t waiting() const { return waiting_; }
  uint64_t under_way() const { return under_way_; }
  const PrefetchAccount& account() const { return account_; }
  const PrefetchWindow& window() const { return window_; }

 private:
  struct Page {
    State state = State::kNone;
    bool is_useful = false;  // of one that is joined
    uint64_t named_in = 0;   // the last plan that named it
    uint64_t waited_in = 0;  // the last plan that found it waiting
    uint64_t last_step = 0;  // in which it can be of use
  };

  void queue(PageList& list, PageNumber page);
  void unqueue(PageList& list, PageNumber page);
  bool take_from_queues(PageNumber page);
  void leave(PageNumber page, uint64_t& count);

  const SchedulerOptions options_;
  PageSource& source_;
  PrefetchWindow window_;
  PerPage<Page> pages_;
  PageList planned_;
  PageList announced_;
  std::vector<PageNumber> before_;  // what waited of the plan before
  uint64_t plans_ = 0;
  uint64_t step_ = 0;     // of the last plan
  uint64_t waiting_ = 0;  // in either list, or in both
  uint64_t under_way_ = 0;
  PrefetchAccount account_;
};

}  // namespace farpage::prefetch
