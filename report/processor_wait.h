#pragma once

#include <cstdint>
#include <optional>

namespace farpage {

// How long the thread that made it has waited since for a processor, though it could run: the run
// delay of /proc/thread-self/schedstat (Linux, Documentation/scheduler/sched-stats.rst). 0 where
// the kernel does not count it, or the file cannot be read. Used by that thread only; each call
// opens the file.
class ProcessorWait {
 public:
  ProcessorWait();
  uint64_t waited_ns() const;

 private:
  std::optional<uint64_t> before_ns_;
};

}  // namespace farpage
