#include "report/processor_wait.h"

#include <fstream>

namespace farpage {
namespace {

std::optional<ProcessorTime> time_so_far() {
  std::ifstream file("/proc/thread-self/schedstat");
  ProcessorTime time;
  if (!(file >> time.ran_ns >> time.waited_ns)) return std::nullopt;
  return time;
}

}  // namespace

ProcessorWait::ProcessorWait() : before_(time_so_far()) {}

ProcessorTime ProcessorWait::spent() const {
  const std::optional<ProcessorTime> now = time_so_far();
  if (!now || !before_) return {};
  return {now->ran_ns - before_->ran_ns, now->waited_ns - before_->waited_ns};
}

}  // namespace farpage
