#include "lab/vtime/step_replay.h"

#include <algorithm>

#include "base/clock.h"

namespace farpage::vtime {

StepReplay::StepReplay(uint64_t pages, uint64_t budget_pages, const TimedOptions& options,
                       Wire& wire, prefetch::Policy& policy, prefetch::Prefetcher& prefetcher)
    : budget_pages_(budget_pages),
      prefetch_pages_(options.prefetch_pages),
      useful_steps_(options.scheduler.useful_steps),
      compute_ns_(options.compute_ns),
      wire_(wire),
      policy_(policy),
      prefetcher_(prefetcher),
      near_(budget_pages, policy),
      pages_(pages),
      candidates_(options.prefetch_pages) {}

void StepReplay::step(std::span<const Access> accesses) {
  begin_step(accesses);
  for (const Access& access : accesses) {
    demand(access);
    wire_.on_access(access);
  }
  const bool is_complete = awaited_ == 0;
  const uint64_t begin_ns = wire_.now_ns();
  wire_.send();
  land();
  ask_prefetcher();
  wait_for_demands(begin_ns);
  const uint64_t ready_ns = wire_.now_ns();
  const uint64_t stall_ns = is_complete ? 0 : ready_ns - begin_ns;
  result_.stall_ns += stall_ns;
  result_.stalled_steps += stall_ns > 0 ? 1 : 0;
  stalls_.add(static_cast<double>(stall_ns));
  longest_ns_ = std::max(longest_ns_, stall_ns);
  // It computes, and waits for no page.
  wire_.next(ready_ns + compute_ns_);
}

void StepReplay::begin_step(std::span<const Access> accesses) {
  step_ = accesses.front().step;
  ++result_.steps;
  uint64_t demanded = 0;
  for (const Access& access : accesses) {
    uint64_t& demanded_in = pages_[access.page].demanded_in;
    if (demanded_in != result_.steps) ++demanded;
    demanded_in = result_.steps;
  }
  if (demanded > budget_pages_) ++result_.overfull_steps;
  // These will be near, and may be named, but are not fetched ahead.
  candidates_.resize(prefetch_pages_ + demanded);
  near_.end_holds(result_.steps, step_, [&](PageNumber page) { wire_.expire(page); });
}

void StepReplay::demand(const Access& access) {
  policy_.on_access(access);
  prefetcher_.on_access(access);
  Page& page = pages_[access.page];
  ++result_.paging.accesses;
  if (!page.is_made) ++result_.paging.first_accesses;
  const State was = wire_.demand(access.page, result_.steps);
  const bool is_ahead = was == State::kHere || was == State::kUnderWay;
  if (is_ahead && result_.steps <= last_step(page)) near_.count_use();
  if (near_.contains(access.page)) {
    ++result_.paging.hits;
    return near_.use(access.page, step_);
  }
  if (was == State::kHere) {
    ++result_.paging.hits;
  } else if (was == State::kUnderWay) {
    prefetcher_.on_miss(access.page);
    ++awaited_;
  } else if (!page.is_made) {
    wire_.make(access.page);
  } else if (was == State::kNone) {
    prefetcher_.on_miss(access.page);
    wire_.fetch(access.page);
    ++awaited_;
    ++result_.demand_fetches;
  }
  page.is_made = true;
  if (const auto gone = near_.insert(access.page, step_)) leave(*gone);
  if (near_.contains(access.page)) {
    prefetcher_.on_insert(access.page);
  } else {
    leave_memory(access.page);
  }
}

// Pages that have come and are not demanded now, else their demand has found them.
void StepReplay::land() {
  for (const PageNumber number : wire_.arrived()) {
    if (make_room_for(pages_[number])) {
      near_.hold(number, last_step(pages_[number]));
      wire_.hold(number);
      prefetcher_.on_insert(number);
    } else {
      wire_.evict(number);
      near_.count_waste();
      wire_.forget(number);
    }
  }
  near_.end_evictions();
}

// Whether there is room for what was fetched ahead.
bool StepReplay::make_room_for(const Page& page) {
  if (!near_.is_full()) return true;
  const auto victim =
      near_.victim(step_, [&](PageNumber named) { return is_demanded(pages_[named]); });
  if (!victim || rank(pages_[*victim]) < rank(page)) return false;
  near_.evict(*victim, step_);
  leave(*victim);
  return true;
}

// It is near no more.
void StepReplay::leave(PageNumber page) {
  wire_.evict(page);
  prefetcher_.on_evict(page);
  leave_memory(page);
  ++result_.paging.evictions;
}

void StepReplay::leave_memory(PageNumber page) {
  wire_.keep(page);
  left_.push_back(page);
}

void StepReplay::ask_prefetcher() {
  const auto named = std::span(candidates_).first(prefetcher_.candidates(candidates_));
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i] >= pages_.size()) continue;
    pages_[named[i]].named_in = result_.steps;
    pages_[named[i]].rank = i;
  }
  const uint64_t room_ahead = near_.room_ahead();
  const uint64_t room =
      std::min(prefetch_pages_, room_ahead - std::min(room_ahead, wire_.under_way()));
  expected_.clear();
  for (const PageNumber page : named) {
    if (expected_.size() == room) break;
    if (page >= pages_.size() || !pages_[page].is_made || near_.contains(page)) continue;
    if (wire_.state(page) != State::kNone) continue;
    pages_[page].expected_in = result_.steps;
    expected_.push_back(page);
  }
  wire_.plan(expected_, result_.steps);
}

void StepReplay::wait_for_demands(uint64_t begin_ns) {
  uint64_t last_ns = 0;
  while (awaited_ > 0) {
    const auto landed = wire_.next(kNever);
    if (!landed) continue;
    --awaited_;
    result_.recomputed_pages += landed->is_whole ? 0 : 1;
    if (!landed->is_ahead) last_ns = wire_.now_ns() - begin_ns;
  }
  if (last_ns > 0) demands_.add(static_cast<double>(last_ns));
  for (const PageNumber page : left_) {
    if (!near_.contains(page) && wire_.state(page) == State::kNone) wire_.forget(page);
  }
  left_.clear();
}

TimedResult StepReplay::end() {
  result_.end_ns = wire_.now_ns();
  result_.stall_p50_ns = quantile(stalls_, 0.50);
  result_.stall_p99_ns = quantile(stalls_, 0.99);
  result_.demand_p50_ns = quantile(demands_, 0.50);
  result_.demand_p99_ns = quantile(demands_, 0.99);
  result_.foresight = prefetcher_.score();
  result_.prefetch = wire_.account();
  result_.fetched_pages = result_.demand_fetches + result_.prefetch.begun;
  return result_;
}

double StepReplay::quantile(const Histogram& histogram, double q) const {
  // The histogram begins at 1 ns, and ends at 1,000 s.
  const double ns = histogram.quantile(q);
  if (ns <= 1.02) return 0;
  return ns < kSecond * 1e3 ? ns : static_cast<double>(longest_ns_);
}

}  // namespace farpage::vtime
