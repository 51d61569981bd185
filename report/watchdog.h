#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/clock.h"
#include "base/histogram.h"

namespace farpage {

// How long a thread of this process does not run though it wants to. Its own thread, of the same
// priority as the one that makes it, does as one that fetches: it sleeps until a time, and then has
// kWorkNs of work, in which it looks at the clock and does nothing else. The time beyond the one
// that it asked for is the delay.
class Watchdog {
 public:
  static constexpr uint64_t kNapNs = kMillisecond;
  static constexpr uint64_t kWorkNs = 3 * kMillisecond;

  Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  // Ends it, once it has measured; what, may be read from then on.
  void stop();
  const Histogram& delay_ns() const { return delay_ns_; }  // one sample after each nap
  uint64_t most_ns() const { return most_ns_; }

 private:
  void run();

  Histogram delay_ns_;
  uint64_t most_ns_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace farpage
