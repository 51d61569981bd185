#pragma once

#include <cstdint>
#include <optional>

namespace farpage {

// A thread's time, but for what it slept.
struct ProcessorTime {
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;  // for a processor, though it could run
};

// Of the thread that made it, since then, by /proc/thread-self/schedstat (Linux,
// Documentation/scheduler/sched-stats.rst). Zeros where the kernel does not count it, or the file
// cannot be read. Used by that thread only; each call opens the file.
class ProcessorWait {
 public:
  ProcessorWait();
  ProcessorTime spent() const;

 private:
  std::optional<ProcessorTime> before_;
};

}  // namespace farpage
