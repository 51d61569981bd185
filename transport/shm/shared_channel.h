#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/memory/mapping.h"
#include "transport/shm/ring.h"

namespace farpage::shm {

// The memory of one channel, as either end maps it. The peer can write all of it.
class SharedChannel {
 public:
  explicit SharedChannel(Mapping mapping)
      : mapping_(std::move(mapping)), id_(memory().id.load(std::memory_order_relaxed)) {}

  ChannelMemory& memory() const { return *reinterpret_cast<ChannelMemory*>(mapping_.data()); }
  // As it was when this end was made.
  uint64_t id() const { return id_; }

 private:
  Mapping mapping_;
  uint64_t id_;
};

// Naps for a moment, at most until the deadline: the control plane announces immediates as well, so
// no wait here is long.
void nap_until(uint64_t deadline_ns);

}  // namespace farpage::shm
