#include "transport/counter.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace farpage {

CompletionCounter::~CompletionCounter() {
  const int fd = event_fd_.load();
  if (fd >= 0) ::close(fd);
}

void CompletionCounter::reset(uint32_t expected) {
  if (callback_) callback_ = nullptr;
  const int fd = event_fd_.load();
  if (fd >= 0) {
    eventfd_t ignored;
    (void)eventfd_read(fd, &ignored);  // EAGAIN when nothing was announced
  }
  // No other thread looks on, so none of these needs an order.
  ok_.store(0, std::memory_order_relaxed);
  failed_.store(0, std::memory_order_relaxed);
  aborted_.store(0, std::memory_order_relaxed);
  expected_.store(expected, std::memory_order_relaxed);
  state_.store(fd >= 0 ? kHasEvent : 0, std::memory_order_release);
  if (expected == 0) announce_if_done();
}

void CompletionCounter::expect(uint32_t expected) {
  expected_ = expected;
  announce_if_done();
}

void CompletionCounter::arrive(Outcome outcome, uint32_t count) {
  std::atomic<uint32_t>& counted = counter_of(outcome);
  const uint32_t sum = counted.load(std::memory_order_relaxed) + count;
  const uint32_t expected = expected_.load(std::memory_order_relaxed);
  if (expected == kUnknown) {
    counted.store(sum);
    return announce_if_done();
  }
  // No expect() comes any more that could make this the last.
  const bool is_last = value().total() + count >= expected;
  counted.store(sum, std::memory_order_release);
  if (is_last) announce();
}

std::atomic<uint32_t>& CompletionCounter::counter_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return ok_;
    case Outcome::kFailed:
    case Outcome::kRefused:
      return failed_;
    case Outcome::kAborted:
      return aborted_;
  }
  return aborted_;
}

// Sequential consistency matters here: when expect() and the last arrive() race, at least one of
// them sees what the other stored.
bool CompletionCounter::done() const {
  const uint32_t expected = expected_.load();
  return expected != kUnknown && value().total() >= expected;
}

CounterValue CompletionCounter::value() const {
  return {ok_.load(), failed_.load(), aborted_.load()};
}

Result<int> CompletionCounter::event_fd() {
  int current = event_fd_.load();
  if (current >= 0) return current;
  const int made = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (made < 0) return fail_errno(errno, "eventfd for a completion counter");
  if (!event_fd_.compare_exchange_strong(current, made)) {
    ::close(made);
    return current;
  }
  if (state_.fetch_or(kHasEvent) & kAnnounced) write_event();
  return made;
}

void CompletionCounter::on_done(std::function<void()> callback) {
  FARPAGE_CHECK(!(state_.load() & kHasCallback));
  callback_ = std::move(callback);
  if (state_.fetch_or(kHasCallback) & kAnnounced) callback_();
}

void CompletionCounter::announce_if_done() {
  if (done()) announce();
}

void CompletionCounter::announce() {
  const uint32_t before = state_.fetch_or(kAnnounced);
  if (before & kAnnounced) return;
  if (before & kHasEvent) write_event();
  if (before & kHasCallback) callback_();
}

void CompletionCounter::write_event() const {
  FARPAGE_CHECK(eventfd_write(event_fd_.load(), 1) == 0);
}

}  // namespace farpage
