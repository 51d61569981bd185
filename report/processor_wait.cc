#include "report/processor_wait.h"

#include <fstream>

namespace farpage {
namespace {

uint64_t run_delay_ns() {
  uint64_t on_processor_ns = 0;
  uint64_t waited_ns = 0;
  std::ifstream("/proc/thread-self/schedstat") >> on_processor_ns >> waited_ns;
  return waited_ns;
}

}  // namespace

ProcessorWait::ProcessorWait() : before_ns_(run_delay_ns()) {}

uint64_t ProcessorWait::waited_ns() const {
  return run_delay_ns() - before_ns_;
}

}  // namespace farpage
