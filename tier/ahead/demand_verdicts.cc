#include <atomic>
#include <utility>

#include "base/check.h"
#include "tier/ahead/demand_fetches.h"

namespace farpage {

bool DemandFetches::judge(DemandFetchState& demand, Page& page) {
  switch (page.way) {
    case Way::kAsked:
      return follow(demand, page, demand.answers[page.answer]);
    case Way::kAhead:
      return judge_ahead(demand, page);
    case Way::kFetching:
      if (!follow(demand, page, since_start(demand, page, again_.verdict(page.fetch))))
        return false;
      again_.end(page.fetch);
      return true;
  }
  return false;
}

// A verdict of a fetch that began later.
PageVerdict DemandFetches::since_start(const DemandFetchState& demand, const Page& page,
                                       PageVerdict verdict) {
  verdict.took_ns += page.begun_ns - demand.started_ns;
  return verdict;
}

// Its verdict is that of what was asked for, and so is who may still write to the destination.
bool DemandFetches::follow(DemandFetchState& demand, const Page& page, const PageVerdict& answer) {
  if (answer.verdict == Verdict::kPending) return false;
  PageVerdict& verdict = demand.verdicts[page.index];
  if (verdict.verdict == Verdict::kPending) settle(demand, page, answer);
  verdict.place = answer.place;
  return answer.place == Place::kReleased;
}

// The page or its header may come first; both are needed, and a denial by either counts.
bool DemandFetches::judge_ahead(DemandFetchState& demand, Page& page) {
  const PageVerdict* header = page.answer == kNone ? nullptr : &demand.answers[page.answer];
  if (header != nullptr && header->verdict == Verdict::kRecompute) {
    leave_place(page);
    return follow(demand, page, *header);
  }
  const PrefetchedPages::Place& place = ahead_.place(page.place);
  const auto is_late = [&] {
    return place.landing == PrefetchedPages::Landing::kUnderWay &&
           clock_.now_ns() >= demand.patience_ns;
  };
  // It may have come, and not have been looked at.
  if (is_late()) ahead_.progress();
  const PrefetchedPages::Landing landing = place.landing;
  const bool is_known = header == nullptr || header->verdict == Verdict::kReady;
  if (landing == PrefetchedPages::Landing::kWhole && is_known) return use(demand, page, header);
  if (landing != PrefetchedPages::Landing::kFailed && !is_late()) return false;
  if (is_late()) {
    ++given_up_;
    if (!std::exchange(demand.has_felt, true)) ahead_.on_waited_in_vain();
  }
  leave_place(page);
  return fetch_again(demand, page);
}

// It has landed, and is good if it is what there is since the demand began (protocol rule 2).
bool DemandFetches::use(DemandFetchState& demand, Page& page, const PageVerdict* header) {
  const PrefetchedPages::Place& place = ahead_.place(page.place);
  const bool is_newest = header == nullptr || header->version == place.version;
  if (!is_newest || place.version < demand.requests[page.index].min_version) {
    ++outdated_;
    leave_place(page);
    return fetch_again(demand, page);
  }
  const uint64_t now_ns = clock_.now_ns();
  if (now_ns >= demand.deadline_ns) {
    leave_place(page);
    stall(demand, page);
    return true;
  }
  PageVerdict verdict = header == nullptr ? PageVerdict() : *header;
  verdict.verdict = Verdict::kReady;
  verdict.version = place.version;
  verdict.landed = place.payload;
  verdict.took_ns = now_ns - demand.started_ns;
  demand.lent.push_back(page.place);
  ++lent_;
  settle(demand, page, verdict);
  return true;
}

// To its own destination, where no attempt has landed before (protocol rule 4).
bool DemandFetches::fetch_again(DemandFetchState& demand, Page& page) {
  page.begun_ns = clock_.now_ns();
  if (page.begun_ns >= demand.deadline_ns) {
    stall(demand, page);
    return true;
  }
  page.fetch = again_.begin(0, demand.requests[page.index], demand.deadline_ns, demand.again);
  page.way = Way::kFetching;
  return judge(demand, page);
}

void DemandFetches::settle(DemandFetchState& demand, const Page& page, PageVerdict verdict) {
  PageVerdict& target = demand.verdicts[page.index];
  const Verdict final = std::exchange(verdict.verdict, Verdict::kPending);
  target = verdict;
  Verdict pending = Verdict::kPending;
  FARPAGE_CHECK(std::atomic_ref<Verdict>(target.verdict)
                    .compare_exchange_strong(pending, final, std::memory_order_acq_rel));
  --demand.pending;
}

// Unless it has its verdict.
void DemandFetches::stall(DemandFetchState& demand, const Page& page) {
  if (demand.verdicts[page.index].verdict != Verdict::kPending) return;
  PageVerdict verdict;
  verdict.verdict = Verdict::kRecompute;
  verdict.reason = Reason::kStalled;
  verdict.took_ns = clock_.now_ns() - demand.started_ns;
  settle(demand, page, verdict);
}

void DemandFetches::leave_place(Page& page) {
  if (page.place != PrefetchedPages::kNoPlace) ahead_.give_back(page.place);
  page.place = PrefetchedPages::kNoPlace;
}

}  // namespace farpage
