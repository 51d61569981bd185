#include "tier/stats/lane_counters.h"

#include "control/status/status_table.h"

namespace farpage {

void LaneCounters::count_recompute(Reason reason, uint64_t took_ns, bool ends_fetch) {
  recompute[static_cast<size_t>(reason)].add();
  recompute_pages.add(took_ns);
  if (ends_fetch) fetches.add(took_ns);
}

void LaneCounters::count_lateness(uint64_t pages, uint64_t now_ns, uint64_t deadline_ns) {
  if (now_ns <= deadline_ns || deadline_ns == 0) return;
  late_verdicts.add(pages);
  latest_ns.raise_to(now_ns - deadline_ns);
}

uint64_t LaneCounters::recompute_total() const {
  uint64_t total = 0;
  for (const Counter& reason : recompute) total += reason.value();
  return total;
}

LaneStats LaneCounters::stats() const {
  return {.pages_ready = ready.value(),
          .pages_recompute = recompute_total(),
          .posts = posts.value(),
          .operations = operations.value(),
          .index_looks = index_looks.value(),
          .located = located.value(),
          .channels_ended = channels_ended.value(),
          .strays = strays.value(),
          .late_verdicts = late_verdicts.value(),
          .latest_ns = latest_ns.value(),
          .next_replicas = next_replicas.value(),
          .hedges = hedges.value(),
          .hedges_won = hedges_won.value(),
          .straight = straight.value()};
}

VerdictCounts LaneCounters::verdicts() const {
  const auto of = [this](Reason reason) { return recompute[static_cast<size_t>(reason)].value(); };
  return {.fetches = fetches.count(),
          .ready = ready.value(),
          .ready_bytes = ready_bytes.value(),
          .miss = of(Reason::kMiss),
          .stale = of(Reason::kStale),
          .corrupt = of(Reason::kCorrupt),
          .stalled = of(Reason::kStalled),
          .unreachable = of(Reason::kUnreachable),
          .slower = of(Reason::kSlower)};
}

void LaneCounters::add(const LaneCounters& other) {
  ready.add(other.ready.value());
  ready_bytes.add(other.ready_bytes.value());
  for (size_t i = 0; i < recompute.size(); ++i) recompute[i].add(other.recompute[i].value());
  posts.add(other.posts.value());
  operations.add(other.operations.value());
  index_looks.add(other.index_looks.value());
  located.add(other.located.value());
  channels_ended.add(other.channels_ended.value());
  strays.add(other.strays.value());
  late_verdicts.add(other.late_verdicts.value());
  latest_ns.raise_to(other.latest_ns.value());
  next_replicas.add(other.next_replicas.value());
  hedges.add(other.hedges.value());
  hedges_won.add(other.hedges_won.value());
  straight.add(other.straight.value());
  push_requests.add(other.push_requests.value());
  quarantined_places.add(other.quarantined_places.value());
  fetches.add(other.fetches);
  ready_pages.add(other.ready_pages);
  recompute_pages.add(other.recompute_pages);
}

void ClientCounters::open(const LaneCounters* lane) {
  const std::lock_guard lock(mutex_);
  open_.push_back(lane);
}

void ClientCounters::close(const LaneCounters* lane) {
  const std::lock_guard lock(mutex_);
  std::erase(open_, lane);
  closed_.add(*lane);
}

void ClientCounters::add_to(LaneCounters& sum) const {
  const std::lock_guard lock(mutex_);
  sum.add(closed_);
  for (const LaneCounters* lane : open_) sum.add(*lane);
}

VerdictCounts ClientCounters::take_untold() {
  LaneCounters sum;
  add_to(sum);
  const VerdictCounts all = sum.verdicts();
  const std::lock_guard lock(mutex_);
  VerdictCounts untold = all;
  for (const auto& count : figures(all)) untold.*count.member -= told_.*count.member;
  told_ = all;
  return untold;
}

}  // namespace farpage
