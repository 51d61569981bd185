#include "client/runner/submission.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/units.h"
#include "client/runner/completions.h"
#include "client/runner/fence.h"
#include "client/runner/spin.h"

namespace farpage {
namespace {

// A wait that is longer looks at the clock again: the longest that the library can count to.
constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;

}  // namespace

void Submission::set(State state) {
  {
    const std::lock_guard lock(mutex_);
    state_.store(state, std::memory_order_release);
  }
  changed_.notify_all();
}

bool Submission::wait(State least, uint64_t deadline_ns) {
  const uint64_t left_ns = deadline_ns - std::min(deadline_ns, boottime_clock().now_ns());
  const auto is_there = [&] { return state_.load(std::memory_order_acquire) >= least; };
  if (spin_until(std::min(spin_ns, left_ns), is_there)) return true;
  std::unique_lock lock(mutex_);
  while (state_.load(std::memory_order_relaxed) < least) {
    const uint64_t now = boottime_clock().now_ns();
    if (now >= deadline_ns) return false;
    const uint64_t left = std::min(deadline_ns - now, kLongestWaitNs);
    changed_.wait_for(lock, std::chrono::nanoseconds(left));
  }
  return true;
}

void Submission::finish() {
  // Before done(), after which the ticket may be given back.
  const Notification told = notification;
  if (told.fence != nullptr) told.fence->decide(verdicts);
  set(kDone);
  if (told.completions != nullptr) told.completions->add(told.tag);
  if (told.callback != nullptr) told.callback(told.context);
}

void Submission::release() {
  set(kReleased);
}

void Submission::reset() {
  state_.store(kFree, std::memory_order_relaxed);
  requests.clear();
  puts.clear();
  behind.reset();
  keys.clear();
  accesses.clear();
  answers.clear();
  verdicts.clear();
  results.clear();
  why.clear();
  removed = 0;
  code = Code::kOk;
  options = {};
  notification = {};
}

}  // namespace farpage
