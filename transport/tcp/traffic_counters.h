#pragma once

#include <atomic>
#include <cstdint>

namespace farpage::tcp {

// Bytes that one I/O thread has moved. In cache lines of its own: no two threads write the same
// one.
struct alignas(64) TrafficCounters {
  std::atomic<uint64_t> connections{0};  // open now
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> write_bytes{0};
  std::atomic<uint64_t> refused{0};
};

}  // namespace farpage::tcp
