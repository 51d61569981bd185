#pragma once

#include <atomic>
#include <cstdint>

namespace farpage::tcp {

// What the I/O threads have moved.
struct TrafficCounters {
  std::atomic<uint64_t> connections{0};  // open now
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> write_bytes{0};
  std::atomic<uint64_t> refused{0};
};

}  // namespace farpage::tcp
