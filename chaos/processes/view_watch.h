#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace farpage::processes {

// For how long clients had no view or no node (Client::reachable), as far as one sees who looks
// every few milliseconds, on a thread of its own.
class ViewWatch {
 public:
  static constexpr uint64_t kLookNs = 5 * kMillisecond;

  // Each says whether one client has a view. Thread-safe, and true at first.
  explicit ViewWatch(std::vector<std::function<bool()>> views);
  ViewWatch(const ViewWatch&) = delete;
  ViewWatch& operator=(const ViewWatch&) = delete;
  ~ViewWatch();

  // Ends it; afterwards the clients may go.
  void stop();
  // Of one client, the longest; read once it has stopped.
  uint64_t longest_ns() const { return longest_ns_; }

 private:
  void run();

  const std::vector<std::function<bool()>> views_;
  std::vector<uint64_t> last_seen_ns_;  // with a view
  std::vector<bool> lacking_;           // at the last look
  uint64_t longest_ns_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace farpage::processes
