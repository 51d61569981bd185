#include <bit>
#include <utility>

#include "tier/fetch/lane_reads.h"

namespace farpage {

// Of a page that asked its index, or that several nodes have.
void LaneEngine::became_ready_with_details(PageInFlight& page) {
  const PageLookup& lookup = details_[page.index].lookup;
  const Version version = page.is.looked_up ? lookup.version() : page.version;
  if (page.is.looked_up && lookup.used_index()) {
    page.peer->link->locations().insert(page.request->key, {page.slot, version});
  }
  if (twin_of(page) != kNoTwin) return settle_twin(page, version);
  if (page.is.straight) counters_.straight.add();
  settle_ready(*page.fetch, page.number(), version, page, page,
               page.is.straight ? straight_landing(page) : nullptr);
  free_page(page);
}

// A page that was hedged is whole: in its destination, or in the hedge's place.
void LaneEngine::settle_twin(PageInFlight& page, Version version) {
  FetchState& fetch = *page.fetch;
  const Slice& asked = page.request->destination;
  PageInFlight& twin = pages_[twin_of(page)];
  // Another attempt that has not ended may write there (rule 4).
  const bool shared = asked.bytes > 0 && !enforced(Guard::kOneLandingOneAttempt) && lands(twin);
  if (shared && enforced(Guard::kReadyNeedsAllEnded)) return attempt_failed(page);
  PageInFlight& first = page.is.hedge ? twin : page;
  const PageInFlight& second = page.is.hedge ? page : twin;
  PageDetails& details = details_of(first);
  details.looks = static_cast<uint8_t>(details.looks + looks_at(second));
  const uint32_t number = page.number();
  if (!page.is.hedge) {
    orphan(twin);
    settle_ready(fetch, number, version, first, page);
    return free_page(first);
  }
  counters_.hedges_won.add();
  PageDetails& hedge = details_of(page);
  fetch.lent |= uint64_t{1} << hedge.place;
  leave(page);
  page.is.hedge = false;  // the place is the fetch's now
  details.twin = hedge.twin = kNoTwin;
  stop_waiting(first);
  const bool ended = first.outstanding == 0;
  if (!ended) retire(first);
  const bool is_lent = asked.bytes > 0 && enforced(Guard::kOneLandingOneAttempt);
  settle_ready(fetch, number, version, first, page, is_lent ? hedge.landing.data : nullptr);
  if (ended) free_page(first);
  free_page(page);
}

void LaneEngine::settle(PageInFlight& page, Reason reason) {
  settle_page(*page.fetch, page.number(), reason, &page);
}

// `whole`: the attempt that has brought the page. `landed`: in a place of the lane's.
void LaneEngine::settle_ready(FetchState& fetch, uint32_t number, Version version,
                              const PageInFlight& first, const PageInFlight& whole,
                              const std::byte* landed) {
  Tries tries = tries_of(&first);
  tries.payload_crc = landing().headers[whole.index].payload_crc;
  tries.landed = landed;
  give_verdict(fetch, number, Reason::kNone, version, tries);
}

// `first`: the page's first attempt; null: it was never begun.
void LaneEngine::settle_page(FetchState& fetch, uint32_t number, Reason reason,
                             const PageInFlight* first) {
  give_verdict(fetch, number, reason, 0, tries_of(first));
}

LaneEngine::Tries LaneEngine::tries_of(const PageInFlight* first) const {
  Tries tries;
  if (first != nullptr && !first->is.detailed) {
    tries = {looks_at(*first), 1, 1};
  } else if (first != nullptr && details_[first->index].history.attempts > 0) {
    const PageDetails& details = details_[first->index];
    tries.looks = static_cast<uint8_t>(details.looks + looks_at(*first));
    tries.attempts = details.history.attempts;
    tries.replicas =
        single_ ? uint8_t{1} : static_cast<uint8_t>(std::popcount(details.history.asked));
  }
  return tries;
}

void LaneEngine::count_recompute(FetchState& fetch, const PageVerdict& verdict) {
  counters_.count_recompute(verdict.reason, verdict.took_ns, fetch.pending == 0);
  any_ended_ |= fetch.pending == 0;
  counters_.count_lateness(1, now_ns_, fetch.deadline_ns);
  if (fetch.is_counted) fetch.counter.arrive(Outcome::kFailed);
}

// For those whose turn it rarely is, so that the loop stays small.
void LaneEngine::count_them_apart() {
  count_them();
}

}  // namespace farpage
