#include <atomic>
#include <bit>

#include "base/check.h"
#include "pagetable/guards.h"
#include "tier/lane_engine.h"

namespace farpage {

// The clock after the check decides whether a page is ready (protocol rule 19).
void LaneEngine::settle_landed() {
  now_ns_ = clock_.now_ns();
  for (const uint32_t index : landed_) {
    Attempt& attempt = attempts_[index];
    if (now_ns_ >= attempt.fetch->deadline_ns && on(Guard::kVerdictByDeadline)) {
      // expire() gives the page its verdict.
      came_to_nothing(attempt);
      continue;
    }
    const PageLookup& lookup = attempt.lookup;
    if (lookup.used_index()) {
      const PageKey& key = attempt.fetch->requests[attempt.page].key;
      attempt.peer->link->locations().insert(key, {lookup.slot(), lookup.version()});
    }
    attempt.peer->path.touched(lookup.slot());
    if (attempt.twin == kNoTwin) {
      settle_page(*attempt.fetch, attempt.page, Reason::kNone, lookup.version(), &attempt);
      free_attempt(attempt);
    } else {
      settle_twin(attempt);
    }
  }
  landed_.clear();
}

// A page that was hedged is whole: in its destination, or in the hedge's place.
void LaneEngine::settle_twin(Attempt& attempt) {
  FetchState& fetch = *attempt.fetch;
  const Slice& asked = fetch.requests[attempt.page].destination;
  const Version version = attempt.lookup.version();
  Attempt& twin = attempts_[attempt.twin];
  // Another attempt that has not ended may write there (rule 4).
  const bool shared = asked.bytes > 0 && !on(Guard::kOneLandingOneAttempt) && lands(twin);
  if (shared && on(Guard::kReadyNeedsAllEnded)) return came_to_nothing(attempt);
  Attempt& first = attempt.hedge ? twin : attempt;
  const Attempt& second = attempt.hedge ? attempt : twin;
  first.looks = static_cast<uint8_t>(first.looks + second.lookup.reads());
  const uint32_t page = attempt.page;
  if (!attempt.hedge) {
    orphan(twin);
    settle_page(fetch, page, Reason::kNone, version, &first);
    return free_attempt(first);
  }
  counters_.hedges_won.add();
  fetch.lent |= uint64_t{1} << attempt.place;
  leave(attempt);
  attempt.hedge = false;  // the place is the fetch's now
  first.twin = kNoTwin;
  stop_waiting(first);
  const bool ended = first.outstanding == 0;
  if (!ended) retire(first);
  if (asked.bytes > 0 && on(Guard::kOneLandingOneAttempt)) {
    fetch.verdicts[page].landed = attempt.landing.data;
  }
  settle_page(fetch, page, Reason::kNone, version, &first);
  if (ended) {
    free_attempt(first);
  } else {
    cancel_queued(first);
  }
  free_attempt(attempt);
}

void LaneEngine::settle(Attempt& attempt, Reason reason) {
  settle_page(*attempt.fetch, attempt.page, reason, 0, &attempt);
}

// `first`: the page's first attempt; null: it was never begun.
void LaneEngine::settle_page(FetchState& fetch, uint32_t page, Reason reason, Version version,
                             const Attempt* first) {
  PageVerdict& target = fetch.verdicts[page];
  const bool ready = reason == Reason::kNone;
  target.reason = reason;
  target.version = version;
  if (ready && target.landed == nullptr) target.landed = fetch.requests[page].destination.data;
  target.took_ns = now_ns_ - fetch.started_ns;
  if (first != nullptr && first->history.attempts > 0) {
    target.looks = static_cast<uint8_t>(first->looks + first->lookup.reads());
    target.attempts = first->history.attempts;
    target.replicas =
        single_ ? uint8_t{1} : static_cast<uint8_t>(std::popcount(first->history.asked));
  }
  const Verdict verdict = ready ? Verdict::kReady : Verdict::kRecompute;
  Verdict pending = Verdict::kPending;
  FARPAGE_CHECK(std::atomic_ref<Verdict>(target.verdict)
                    .compare_exchange_strong(pending, verdict, std::memory_order_acq_rel));
  --fetch.pending;
  count_verdict(fetch, target, page);
  fetch.counter.arrive(ready ? Outcome::kOk : Outcome::kFailed);
}

void LaneEngine::count_verdict(const FetchState& fetch, const PageVerdict& verdict, uint32_t page) {
  counters_.count_page(verdict.reason, fetch.requests[page].destination.bytes, verdict.took_ns);
  if (fetch.pending == 0) counters_.fetches.add(verdict.took_ns);
  counters_.count_lateness(now_ns_, fetch.deadline_ns);
}

}  // namespace farpage
