#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace farpage::fault {

struct LinkShape {
  uint64_t latency_ns = 0;
  uint64_t bytes_per_s = 0;  // 0: without limit
};

// The one link of all channels of a host, as slow as it is told to be: it carries what is asked for
// one after the other, in the order in which it is asked for. Thread-safe.
class ShapedLink {
 public:
  // For what is asked for from now on.
  void set(const LinkShape& shape) {
    std::lock_guard lock(mutex_);
    shape_ = shape;
  }

  struct Passage {
    uint64_t begin_ns = 0;  // the link is free for it
    uint64_t due_ns = 0;    // it has come; no sooner than it really has
  };
  // When so many bytes pass that are asked for at this time.
  Passage carry(uint64_t now_ns, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    const uint64_t begin_ns = std::max(now_ns, free_at_ns_);
    free_at_ns_ = begin_ns;
    if (shape_.bytes_per_s > 0) {
      const auto product = static_cast<unsigned __int128>(bytes) * kSecond;
      free_at_ns_ += static_cast<uint64_t>(product / shape_.bytes_per_s);
    }
    return {begin_ns, free_at_ns_ + shape_.latency_ns};
  }

 private:
  std::mutex mutex_;
  LinkShape shape_;
  uint64_t free_at_ns_ = 0;
};

}  // namespace farpage::fault
