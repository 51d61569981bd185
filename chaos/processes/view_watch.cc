#include "chaos/processes/view_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"

namespace farpage::processes {

ViewWatch::ViewWatch(std::vector<std::function<bool()>> views)
    : views_(std::move(views)),
      last_seen_ns_(views_.size(), boottime_clock().now_ns()),
      lacking_(views_.size(), false),
      thread_([this] { run(); }) {}

ViewWatch::~ViewWatch() {
  stop();
}

void ViewWatch::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

// From the last look that found a view to the end of the one that does again: too long by two looks
// at most. It does not see what begins and ends between two looks.
void ViewWatch::run() {
  bool is_last = false;
  while (!is_last) {
    is_last = stopping_;
    for (size_t i = 0; i < views_.size(); ++i) {
      const uint64_t begun_ns = boottime_clock().now_ns();
      const bool has_view = views_[i]();
      if (lacking_[i] || !has_view) {
        longest_ns_ = std::max(longest_ns_, boottime_clock().now_ns() - last_seen_ns_[i]);
      }
      lacking_[i] = !has_view;
      if (has_view) last_seen_ns_[i] = begun_ns;
    }
    if (!is_last) std::this_thread::sleep_for(std::chrono::nanoseconds(kLookNs));
  }
}

}  // namespace farpage::processes
