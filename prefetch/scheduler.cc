#include "prefetch/scheduler.h"

#include "base/check.h"

namespace farpage::prefetch {

void Scheduler::plan(std::span<const PageNumber> pages, uint64_t step) {
  ++plans_;
  step_ = step;
  window_.on_plan();
  before_.clear();
  while (planned_.size() > 0) {
    before_.push_back(planned_.front());
    unqueue(planned_, planned_.front());
  }
  for (const PageNumber page : before_) pages_.at(page).waited_in = plans_;
  for (const PageNumber page : pages) {
    Page& named = pages_.at(page);
    if (named.named_in == plans_ || named.state != State::kNone) continue;
    named.named_in = plans_;
    const bool waited = named.waited_in == plans_ || announced_.contains(page);
    if (waiting() == options_.most_waiting && !announced_.contains(page)) {
      if (!waited) ++account_.refused;
      continue;
    }
    if (!waited) ++account_.asked;
    queue(planned_, page);
  }
  for (const PageNumber page : before_) {
    if (!waits(page)) ++account_.cancelled;
  }
}

void Scheduler::announce(PageNumber page) {
  if (state(page) != State::kNone) {
    pages_.at(page).last_step = UINT64_MAX;
    return;
  }
  if (announced_.contains(page)) return;
  const bool waited = waits(page);
  if (!waited && refuse()) return;
  if (!waited) ++account_.asked;
  queue(announced_, page);
}

void Scheduler::withdraw(PageNumber page) {
  if (!announced_.contains(page)) return;
  unqueue(announced_, page);
  if (!waits(page)) ++account_.cancelled;
}

void Scheduler::cancel(PageNumber page) {
  if (!planned_.contains(page)) return;
  unqueue(planned_, page);
  if (!waits(page)) ++account_.cancelled;
}

bool Scheduler::refuse() {
  if (waiting() < options_.most_waiting) return false;
  ++account_.refused;
  return true;
}

void Scheduler::begin() {
  while (under_way_ < window_.pages() && waiting() > 0) {
    const PageNumber page = planned_.size() > 0 ? planned_.front() : announced_.front();
    if (!source_.begin(page)) return;
    const bool is_planned = !announced_.contains(page);
    take_from_queues(page);
    Page& begun = pages_.at(page);
    begun.state = State::kUnderWay;
    begun.last_step = is_planned ? step_ + options_.useful_steps : UINT64_MAX;
    ++under_way_;
    ++account_.begun;
  }
}

Scheduler::State Scheduler::on_landed(PageNumber page, bool is_whole) {
  Page& landed = pages_.at(page);
  const State was = landed.state;
  FARPAGE_CHECK(was == State::kUnderWay || was == State::kJoined);
  --under_way_;
  landed.state = State::kNone;
  if (!is_whole) {
    ++account_.failed;
    return was;
  }
  window_.on_landed();
  if (was == State::kUnderWay) {
    landed.state = State::kHere;
  } else {
    ++(landed.is_useful ? account_.late : account_.unused);
  }
  return was;
}

Scheduler::State Scheduler::demand(PageNumber page, uint64_t step) {
  if (take_from_queues(page)) {
    ++account_.overtaken;
    return State::kNone;
  }
  const State was = state(page);
  if (was == State::kNone || was == State::kJoined) return was;
  Page& demanded = pages_.at(page);
  const bool is_useful = step <= demanded.last_step;
  if (was == State::kUnderWay) {
    demanded.state = State::kJoined;
    demanded.is_useful = is_useful;
  } else {
    demanded.state = State::kNone;
    ++(is_useful ? account_.timely : account_.unused);
  }
  return was;
}

// A page in both lists waits once.
void Scheduler::queue(PageList& list, PageNumber page) {
  if (!waits(page)) ++waiting_;
  list.push_back(page);
}

void Scheduler::unqueue(PageList& list, PageNumber page) {
  list.remove(page);
  if (!waits(page)) --waiting_;
}

// Whether it was in one.
bool Scheduler::take_from_queues(PageNumber page) {
  if (!waits(page)) return false;
  if (planned_.contains(page)) unqueue(planned_, page);
  if (announced_.contains(page)) unqueue(announced_, page);
  return true;
}

void Scheduler::leave(PageNumber page, uint64_t& count) {
  if (state(page) != State::kHere) return;
  pages_.at(page).state = State::kNone;
  ++count;
}

}  // namespace farpage::prefetch
