#include "tier/demands.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

// Two lanes cannot be waited for at one time: the other one is looked at again after so long.
constexpr uint64_t kLookNs = 20 * kMicrosecond;

}  // namespace

Demands::Demands(const Clock& clock, Lane lane, PagesAhead& ahead)
    : clock_(clock), ahead_(ahead), lane_(std::move(lane)), again_(lane_, kMostAgain) {}

DemandState& Demands::unused() {
  const auto found =
      std::ranges::find_if(states_, [](const auto& state) { return !state->in_use; });
  if (found != states_.end()) return **found;
  return *states_.emplace_back(std::make_unique<DemandState>());
}

DemandState* Demands::start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                            uint64_t deadline_ns, const DemandOptions& options) {
  FARPAGE_CHECK(requests.size() == verdicts.size());
  DemandState& demand = unused();
  demand.requests = requests;
  demand.verdicts = verdicts;
  demand.started_ns = clock_.now_ns();
  demand.deadline_ns = deadline_ns;
  const uint64_t left_ns = deadline_ns - std::min(deadline_ns, demand.started_ns);
  demand.patience_ns = demand.started_ns + left_ns / 2;
  demand.pending = requests.size();
  demand.is_beside = ahead_.is_under_way();
  demand.is_told = false;
  demand.is_direct = true;
  demand.in_use = true;
  demand.asked.clear();
  demand.open.clear();
  for (uint32_t i = 0; i < requests.size(); ++i) {
    const uint32_t place = ahead_.demand(requests[i]);
    if (demand.is_direct && place == PagesAhead::kNoPlace) continue;
    for (uint32_t before = 0; demand.is_direct && before < i; ++before) {
      ask(demand, before, PagesAhead::kNoPlace, false);
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

// What is asked over the lane for a page: the page itself; or, of one that is fetched ahead, its
// header, or nothing.
void Demands::ask(DemandState& demand, uint32_t index, uint32_t place, bool allow_cached) {
  const bool is_ahead = place != PagesAhead::kNoPlace;
  const bool is_asked = !is_ahead || (!allow_cached && on(Guard::kHeaderRereadForLocal));
  const auto answer = static_cast<uint32_t>(demand.asked.size());
  demand.open.push_back({.index = index,
                         .way = is_ahead ? Way::kAhead : Way::kAsked,
                         .answer = is_asked ? answer : kNone,
                         .place = place});
  if (!is_asked) return;
  PageRequest& request = demand.asked.emplace_back(demand.requests[index]);
  if (is_ahead) request.destination = {};
}

// Returns once nobody writes to a destination any more.
void Demands::recycle(DemandState* demand) {
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
}

void Demands::judge() {
  for (DemandState* demand : active_) {
    if (!demand->is_direct) judge(*demand);
    if (demand->done() && !demand->is_told) tell_window(*demand);
  }
  std::erase_if(active_, [](const DemandState* demand) { return demand->released(); });
}

void Demands::judge(DemandState& demand) {
  for (size_t i = 0; i < demand.open.size();) {
    if (judge(demand, demand.open[i])) {
      demand.open[i] = demand.open.back();
      demand.open.pop_back();
    } else {
      ++i;
    }
  }
}

bool Demands::judge(DemandState& demand, Page& page) {
  switch (page.way) {
    case Way::kAsked:
      return follow(demand, page, demand.answers[page.answer]);
    case Way::kAhead:
      return judge_ahead(demand, page);
    case Way::kAgain:
      return fetch_again(demand, page);
    case Way::kFetching:
      if (!follow(demand, page, since_start(demand, again_.verdict(page.fetch)))) return false;
      again_.end(page.fetch);
      return true;
  }
  return false;
}

// A verdict of a fetch that began later.
PageVerdict Demands::since_start(const DemandState& demand, PageVerdict verdict) const {
  verdict.took_ns = clock_.now_ns() - demand.started_ns;
  return verdict;
}

// Its verdict is that of what was asked for, and so is who may still write to the destination.
bool Demands::follow(DemandState& demand, const Page& page, const PageVerdict& answer) {
  if (answer.verdict == Verdict::kPending) return false;
  PageVerdict& verdict = demand.verdicts[page.index];
  if (verdict.verdict == Verdict::kPending) settle(demand, page, answer);
  verdict.place = answer.place;
  return answer.place == Place::kReleased;
}

// Whichever comes first, the page or its header; both are needed, and what either denies counts.
bool Demands::judge_ahead(DemandState& demand, Page& page) {
  const PageVerdict* header = page.answer == kNone ? nullptr : &demand.answers[page.answer];
  if (header != nullptr && header->verdict == Verdict::kRecompute) {
    leave_place(page);
    return follow(demand, page, *header);
  }
  const PagesAhead::Landing landing = ahead_.place(page.place).landing;
  const bool is_known = header == nullptr || header->verdict == Verdict::kReady;
  if (landing == PagesAhead::Landing::kWhole && is_known) return use(demand, page, header);
  const bool is_late =
      landing == PagesAhead::Landing::kUnderWay && clock_.now_ns() >= demand.patience_ns;
  if (landing != PagesAhead::Landing::kFailed && !is_late) return false;
  if (is_late) ++given_up_;
  leave_place(page);
  return fetch_again(demand, page);
}

// It has landed, and is good if it is what there is since the demand began (protocol rule 2).
bool Demands::use(DemandState& demand, Page& page, const PageVerdict* header) {
  const PagesAhead::Place& place = ahead_.place(page.place);
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
  verdict.landed = place.slice.data;
  verdict.took_ns = now_ns - demand.started_ns;
  demand.lent.push_back(page.place);
  ++lent_;
  settle(demand, page, verdict);
  return true;
}

// To its own destination, where no attempt has landed before (protocol rule 4).
bool Demands::fetch_again(DemandState& demand, Page& page) {
  page.way = Way::kAgain;
  if (clock_.now_ns() >= demand.deadline_ns) {
    stall(demand, page);
    return true;
  }
  if (again_.is_full()) return false;
  page.fetch = again_.begin(0, demand.requests[page.index], demand.deadline_ns);
  page.way = Way::kFetching;
  return judge(demand, page);
}

void Demands::settle(DemandState& demand, const Page& page, PageVerdict verdict) {
  PageVerdict& target = demand.verdicts[page.index];
  const Verdict final = std::exchange(verdict.verdict, Verdict::kPending);
  target = verdict;
  Verdict pending = Verdict::kPending;
  FARPAGE_CHECK(std::atomic_ref<Verdict>(target.verdict)
                    .compare_exchange_strong(pending, final, std::memory_order_acq_rel));
  --demand.pending;
}

// Unless it has its verdict.
void Demands::stall(DemandState& demand, const Page& page) {
  if (demand.verdicts[page.index].verdict != Verdict::kPending) return;
  PageVerdict verdict;
  verdict.verdict = Verdict::kRecompute;
  verdict.reason = Reason::kStalled;
  verdict.took_ns = clock_.now_ns() - demand.started_ns;
  settle(demand, page, verdict);
}

void Demands::leave_place(Page& page) {
  if (page.place != PagesAhead::kNoPlace) ahead_.give_back(page.place);
  page.place = PagesAhead::kNoPlace;
}

void Demands::wait(DemandState& demand, uint64_t until_ns) {
  const bool is_alone = demand.is_direct && !ahead_.is_under_way();
  if (is_alone && until_ns == kNever) return demand.batch.wait();
  const uint64_t now_ns = clock_.now_ns();
  if (!is_alone) until_ns = std::min(until_ns, now_ns + kLookNs);
  if (!demand.done()) until_ns = std::min(until_ns, demand.deadline_ns);
  if (!demand.batch.released()) {
    demand.batch.wait_released(until_ns);
  } else if (again_.under_way() > 0) {
    again_.wait(until_ns);
  } else {
    ahead_.wait(until_ns);
  }
}

// How long its first page took over the wire, or how long it was waited for in vain.
void Demands::tell_window(DemandState& demand) {
  demand.is_told = true;
  const auto requests =
      demand.is_direct ? demand.requests : std::span<const PageRequest>(demand.asked);
  const auto verdicts =
      demand.is_direct ? std::span<const PageVerdict>(demand.verdicts) : demand.answers;
  uint64_t first_ns = kNever;
  uint64_t stalled_ns = kNever;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].destination.bytes == 0) continue;
    const PageVerdict& verdict = verdicts[i];
    if (verdict.verdict == Verdict::kReady) first_ns = std::min(first_ns, verdict.took_ns);
    if (verdict.reason == Reason::kStalled) stalled_ns = std::min(stalled_ns, verdict.took_ns);
  }
  if (first_ns == kNever) first_ns = stalled_ns;
  if (first_ns < kNever) ahead_.on_demand(first_ns, demand.is_beside);
}

void Demands::add_to(PrefetchReport& report) const {
  report.lent += lent_;
  report.outdated += outdated_;
  report.given_up += given_up_;
}

}  // namespace farpage
