#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "transport/operation.h"

namespace farpage {

struct CounterValue {
  uint32_t ok = 0;
  uint32_t failed = 0;
  uint32_t aborted = 0;

  uint32_t total() const { return ok + failed + aborted; }
};

// Counts the arrivals of one transfer, by outcome, so that a wait for them can always end: what
// failed and what was aborted has arrived too. Arrivals may come before it is known how many to
// expect.
//
// Threading: one thread calls arrive() at a time, and one expect(); they may race with each other
// and with on_done(), done(), value() and event_fd(), which are safe from any thread. reset() and
// the destructor must come after every such call has returned: done() can be true while the
// arrive() that made it so still runs the callback.
class CompletionCounter {
 public:
  CompletionCounter() = default;
  ~CompletionCounter();

  // Starts over, for `expected` arrivals (kUnknown: until expect() says). No thread may be waiting.
  static constexpr uint32_t kUnknown = UINT32_MAX;
  void reset(uint32_t expected);
  void expect(uint32_t expected);

  void arrive(Outcome outcome, uint32_t count = 1);

  bool done() const;
  CounterValue value() const;

  // Readable from when the counter is done until reset(). Made at the first call; owned by the
  // counter.
  Result<int> event_fd();
  // Runs once, in the thread that brings the last arrival, or at once if it has come already. At
  // most one callback a reset().
  void on_done(std::function<void()> callback);

 private:
  std::atomic<uint32_t>& counter_of(Outcome outcome);
  void announce_if_done();
  void announce();
  void write_event() const;

  // Bits of state_. The thread that sets the second of two bits that belong together sees the
  // first, and acts.
  static constexpr uint32_t kAnnounced = 1;
  static constexpr uint32_t kHasCallback = 2;
  static constexpr uint32_t kHasEvent = 4;

  std::atomic<uint32_t> ok_{0};
  std::atomic<uint32_t> failed_{0};
  std::atomic<uint32_t> aborted_{0};
  std::atomic<uint32_t> expected_{kUnknown};
  std::atomic<uint32_t> state_{0};
  std::function<void()> callback_;
  std::atomic<int> event_fd_{-1};
};

}  // namespace farpage
