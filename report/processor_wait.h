#pragma once

#include <cstdint>

namespace farpage {

// How long the thread that made it has waited since for a processor, though it could run: the run
// delay of /proc/thread-self/schedstat (Linux, Documentation/scheduler/sched-stats.rst). 0 where
// the kernel does not count it. Used by that thread only; a look costs a file's opening.
class ProcessorWait {
 public:
  ProcessorWait();
  uint64_t waited_ns() const;

 private:
  uint64_t before_ns_;
};

}  // namespace farpage
