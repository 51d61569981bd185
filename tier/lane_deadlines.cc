#include <algorithm>

#include "tier/lane_engine.h"

namespace farpage {

void LaneEngine::sweep() {
  if (!path_.view_valid(now_ns_)) drop_unreachable();
  if (waiting_ > 0) begin_again();
  for (FetchState* fetch : active_) {
    if (fetch->pending > 0 && now_ns_ >= fetch->deadline_ns) expire(*fetch);
  }
  if (path_.is_open() && overdue()) end_path();
  std::erase_if(active_,
                [](const FetchState* fetch) { return fetch->pending == 0 && fetch->held == 0; });
}

// Attempts whose operations came to nothing, on a path that is open (again).
void LaneEngine::begin_again() {
  const bool open = path_.is_open();
  for (uint32_t index = 0; index < kWindow; ++index) {
    Attempt& attempt = attempts_[index];
    if (!attempt.waiting || !open || now_ns_ >= attempt.fetch->deadline_ns) continue;
    attempt.waiting = false;
    --waiting_;
    look_up(index);
  }
}

// Without a view there is nothing that may be used, and nobody to wait for.
void LaneEngine::drop_unreachable() {
  end_path();
  poll_completions();
  for (uint32_t index = 0; index < kWindow; ++index) {
    Attempt& attempt = attempts_[index];
    if (!attempt.waiting) continue;
    attempt.waiting = false;
    --waiting_;
    settle(attempt, Verdict::kRecompute, Reason::kUnreachable);
    free_attempt(index);
  }
  for (FetchState* fetch : active_) {
    while (fetch->next < fetch->requests.size()) {
      const auto page = static_cast<uint32_t>(fetch->next++);
      settle_page(*fetch, page, Verdict::kRecompute, Reason::kUnreachable, 0, 0);
    }
  }
}

// The deadline has come: every page gets its verdict now. A destination that an operation may still
// write to is held, and the path is ended, which ends the operation.
void LaneEngine::expire(FetchState& fetch) {
  const auto under_way = [&](const Attempt& attempt) {
    return attempt.fetch == &fetch && attempt.outstanding > 0;
  };
  cancel_queued(&fetch);
  // A backend that copies ends what is late by itself, when it is polled.
  for (size_t before = SIZE_MAX; path_.in_flight() < before;) {
    if (std::none_of(attempts_.begin(), attempts_.end(), under_way)) break;
    before = path_.in_flight();
    poll_completions();
  }
  cancel_queued(&fetch);  // what the polls have queued anew
  bool holds = false;
  for (uint32_t index = 0; index < kWindow; ++index) {
    Attempt& attempt = attempts_[index];
    if (attempt.fetch != &fetch || attempt.held) continue;
    if (attempt.waiting) {
      attempt.waiting = false;
      --waiting_;
    }
    attempt.held = attempt.outstanding > 0;
    const bool lands = attempt.lookup.step() == PageLookup::Step::kReadPage &&
                       fetch.requests[attempt.page].destination.bytes > 0;
    if (attempt.held && lands) {
      fetch.verdicts[attempt.page].place = Place::kHeld;
      ++fetch.held;
    }
    holds |= attempt.held;
    settle(attempt, Verdict::kRecompute, Reason::kStalled);
    if (!attempt.held) {
      free_attempt(index);
    } else if (!lands) {
      attempt.fetch = &orphaned_;
    }
  }
  while (fetch.next < fetch.requests.size()) {
    const auto page = static_cast<uint32_t>(fetch.next++);
    settle_page(fetch, page, Verdict::kRecompute, Reason::kStalled, 0, 0);
  }
  if (holds) end_path();
}

void LaneEngine::end_path() {
  cancel_queued(nullptr);
  if (!path_.is_open()) return;
  counters_.channels_ended.add();
  path_.end();
}

// Takes back what has been queued and not posted, of one fetch or (null) of all.
void LaneEngine::cancel_queued(const FetchState* fetch) {
  const auto is_other = [&](const Operation& operation) {
    return fetch != nullptr && attempts_[OperationTag::of(operation.tag).attempt].fetch != fetch;
  };
  const auto cancelled = std::stable_partition(queue_.begin(), queue_.end(), is_other);
  for (auto operation = cancelled; operation != queue_.end(); ++operation) {
    const OperationTag tag = OperationTag::of(operation->tag);
    attempts_[tag.attempt].broken = true;
    operation_ended(tag);
  }
  queue_.erase(cancelled, queue_.end());
}

// Whether an operation has been under way for longer than its result could be used.
bool LaneEngine::overdue() {
  if (path_.in_flight() == 0) return false;
  const uint64_t limit = path_.view().reuse_ns;
  if (now_ns_ - since_ns_ < limit) return false;
  since_ns_ = oldest_post_ns();
  return now_ns_ - since_ns_ >= limit;
}

uint64_t LaneEngine::oldest_post_ns() const {
  uint64_t oldest = now_ns_;
  for (const Attempt& attempt : attempts_) {
    if (attempt.fetch != nullptr && attempt.outstanding > 0) {
      oldest = std::min(oldest, attempt.posted_ns);
    }
  }
  return oldest;
}

uint64_t LaneEngine::next_event_ns() const {
  uint64_t next = kNever;
  for (const FetchState* fetch : active_) {
    if (fetch->pending > 0) next = std::min(next, fetch->deadline_ns);
  }
  if (!path_.is_open()) return next;
  next = std::min(next, path_.view().valid_until_ns.load(std::memory_order_relaxed));
  return std::min(next, since_ns_ + path_.view().reuse_ns);
}

template <typename Ready>
void LaneEngine::drive(uint64_t until_ns, const Ready& ready) {
  if (progress() || ready()) return;
  if (path_.is_open() && path_.in_flight() == 0) return;  // there is something to post
  path_.wait(std::min(until_ns, next_event_ns()));
}

void LaneEngine::wait_done(FetchState* fetch) {
  while (fetch->pending > 0) drive(kNever, [fetch] { return fetch->pending == 0; });
}

bool LaneEngine::wait_released(FetchState* fetch, uint64_t deadline_ns) {
  const auto released = [fetch] { return fetch->pending == 0 && fetch->held == 0; };
  while (!released()) {
    if (clock_.now_ns() >= deadline_ns) return false;
    drive(deadline_ns, released);
  }
  return true;
}

}  // namespace farpage
