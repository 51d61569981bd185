#include "report/processor_wait.h"

#include <fstream>

namespace farpage {
namespace {

std::optional<uint64_t> run_delay_ns() {
  std::ifstream file("/proc/thread-self/schedstat");
  uint64_t on_processor_ns = 0;
  uint64_t waited_ns = 0;
  if (!(file >> on_processor_ns >> waited_ns)) return std::nullopt;
  return waited_ns;
}

}  // namespace

ProcessorWait::ProcessorWait() : before_ns_(run_delay_ns()) {}

uint64_t ProcessorWait::waited_ns() const {
  const std::optional<uint64_t> now_ns = run_delay_ns();
  return now_ns && before_ns_ ? *now_ns - *before_ns_ : 0;
}

}  // namespace farpage
