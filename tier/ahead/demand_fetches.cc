#include "tier/ahead/demand_fetches.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "pagetable/guards.h"

namespace farpage {

DemandFetches::DemandFetches(const Clock& clock, Lane lane, PrefetchedPages& ahead)
    : clock_(clock), ahead_(ahead), lane_(std::move(lane)), again_(lane_, ahead.places()) {}

DemandFetchState& DemandFetches::unused() {
  const auto found =
      std::ranges::find_if(states_, [](const auto& state) { return !state->in_use; });
  if (found != states_.end()) return **found;
  return *states_.emplace_back(std::make_unique<DemandFetchState>());
}

DemandFetchState* DemandFetches::start(std::span<const PageRequest> requests,
                                       std::span<PageVerdict> verdicts, uint64_t deadline_ns,
                                       const DemandOptions& options) {
  FARPAGE_CHECK(requests.size() == verdicts.size());
  DemandFetchState& demand = unused();
  demand.requests = requests;
  demand.verdicts = verdicts;
  demand.started_ns = clock_.now_ns();
  demand.deadline_ns = deadline_ns;
  const uint64_t left_ns = deadline_ns - std::min(deadline_ns, demand.started_ns);
  demand.patience_ns = demand.started_ns + left_ns / 2;
  demand.pending = requests.size();
  demand.again = options.fetch;
  demand.again.hedge = false;  // it lands where it was asked for
  demand.beside_ns = ahead_.is_under_way() ? demand.started_ns : kNever;
  demand.is_told = demand.has_felt = false;
  demand.is_direct = true;
  demand.in_use = true;
  demand.asked.clear();
  demand.open.clear();
  // Not as they fill: how much of it is ahead is another each time.
  demand.asked.reserve(requests.size());
  demand.answers.reserve(requests.size());
  demand.open.reserve(requests.size());
  demand.lent.reserve(requests.size());
  ahead_.on_demand_begun();
  for (uint32_t i = 0; i < requests.size(); ++i) {
    // Pages fetched ahead lie in host memory, where a reader of another kind cannot look.
    const bool may_borrow = requests[i].destination.place.is_host();
    const uint32_t place = may_borrow ? ahead_.demand(requests[i]) : PrefetchedPages::kNoPlace;
    if (demand.is_direct && place == PrefetchedPages::kNoPlace) continue;
    for (uint32_t before = 0; demand.is_direct && before < i; ++before) {
      ask(demand, before, PrefetchedPages::kNoPlace, false);
    }
    demand.is_direct = false;
    ask(demand, i, place, options.allow_cached);
  }
  if (demand.is_direct) {
    demand.batch = lane_.fetch(requests, verdicts, deadline_ns, options.fetch);
  } else {
    std::ranges::fill(verdicts, PageVerdict{});
    demand.answers.resize(demand.asked.size());
    demand.batch = lane_.fetch(demand.asked, demand.answers, deadline_ns, options.fetch);
  }
  active_.push_back(&demand);
  judge();
  return &demand;
}

// The lane's request for a page: the page itself; or, for one that is fetched ahead, its header, or
// nothing.
void DemandFetches::ask(DemandFetchState& demand, uint32_t index, uint32_t place,
                        bool allow_cached) {
  const bool is_ahead = place != PrefetchedPages::kNoPlace;
  const bool is_asked = !is_ahead || (!allow_cached && enforced(Guard::kHeaderRereadForLocal));
  const auto answer = static_cast<uint32_t>(demand.asked.size());
  demand.open.push_back({.index = index,
                         .way = is_ahead ? Way::kAhead : Way::kAsked,
                         .answer = is_asked ? answer : kNone,
                         .place = place});
  if (!is_asked) return;
  PageRequest& request = demand.asked.emplace_back(demand.requests[index]);
  if (is_ahead) request.destination = {};
}

// Returns once no operation writes to a destination any more.
void DemandFetches::recycle(DemandFetchState* demand) {
  { const Fetch over = std::move(demand->batch); }
  demand->deadline_ns = 0;
  judge(*demand);
  for (Page& page : demand->open) {
    if (page.way == Way::kFetching) again_.end(page.fetch);
    stall(*demand, page);
    demand->verdicts[page.index].place = Place::kReleased;
    leave_place(page);
  }
  demand->open.clear();
  for (const uint32_t place : demand->lent) ahead_.give_back(place);
  demand->lent.clear();
  std::erase(active_, demand);
  demand->in_use = false;
  // Others may have ended meanwhile, and lend their verdicts no longer than that.
  judge();
}

// To judge one may drive the lane, and end another: none is told of before all are judged.
void DemandFetches::judge() {
  for (DemandFetchState* demand : active_) {
    if (!demand->is_direct) judge(*demand);
  }
  for (DemandFetchState* demand : active_) {
    if (demand->done() && !demand->is_told) tell_window(*demand);
  }
  std::erase_if(active_, [](const DemandFetchState* demand) { return demand->released(); });
}

void DemandFetches::judge(DemandFetchState& demand) {
  for (size_t i = 0; i < demand.open.size();) {
    if (judge(demand, demand.open[i])) {
      demand.open[i] = demand.open.back();
      demand.open.pop_back();
    } else {
      ++i;
    }
  }
}

bool DemandFetches::is_awaited(const Page& page) const {
  return page.way == Way::kAhead && page.place != PrefetchedPages::kNoPlace &&
         ahead_.place(page.place).landing == PrefetchedPages::Landing::kUnderWay;
}

bool DemandFetches::is_ahead_awaited() const {
  return std::ranges::any_of(active_, [this](const DemandFetchState* demand) {
    return std::ranges::any_of(demand->open, [this](const Page& page) { return is_awaited(page); });
  });
}

// Of which the lane knows nothing: of pages that come ahead.
bool DemandFetches::is_reading() const {
  return again_.under_way() > 0 ||
         std::ranges::any_of(active_, [](const auto* demand) { return !demand->batch.released(); });
}

uint64_t DemandFetches::next_event_ns() const {
  uint64_t next_ns = kNever;
  for (const DemandFetchState* demand : active_) {
    for (const Page& page : demand->open) {
      if (is_awaited(page)) next_ns = std::min(next_ns, demand->patience_ns);
    }
  }
  return next_ns;
}

void DemandFetches::on_begun_ahead() {
  if (!ahead_.is_under_way()) return;
  const uint64_t now_ns = clock_.now_ns();
  for (DemandFetchState* demand : active_) demand->beside_ns = std::min(demand->beside_ns, now_ns);
}

// How long the first of its reads took, or how long it was waited for in vain.
void DemandFetches::tell_window(DemandFetchState& demand) {
  using Read = prefetch::PrefetchWindow::Read;
  demand.is_told = true;
  const auto requests =
      demand.is_direct ? demand.requests : std::span<const PageRequest>(demand.asked);
  const auto verdicts =
      demand.is_direct ? std::span<const PageVerdict>(demand.verdicts) : demand.answers;
  for (const Read read : {Read::kPage, Read::kHeader}) {
    uint64_t first_ns = kNever;
    uint64_t stalled_ns = kNever;
    for (size_t i = 0; i < requests.size(); ++i) {
      if ((requests[i].destination.bytes == 0) != (read == Read::kHeader)) continue;
      const PageVerdict& verdict = verdicts[i];
      if (verdict.verdict == Verdict::kReady) first_ns = std::min(first_ns, verdict.took_ns);
      if (verdict.reason == Reason::kStalled) stalled_ns = std::min(stalled_ns, verdict.took_ns);
    }
    if (first_ns == kNever) first_ns = stalled_ns;
    if (first_ns == kNever) continue;
    const bool is_beside = demand.beside_ns < demand.started_ns + first_ns;
    return ahead_.on_demand(read, first_ns, is_beside);
  }
}

void DemandFetches::add_to(PrefetchReport& report) const {
  report.lent += lent_;
  report.outdated += outdated_;
  report.given_up += given_up_;
}

}  // namespace farpage
