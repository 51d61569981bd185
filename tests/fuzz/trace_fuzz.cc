// A trace of anybody: refused with the line, or a list of requests in the order of their times.
#include <algorithm>

#include "base/check.h"
#include "replay/traces/trace.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  const MemoryFile file(data, bytes);
  const auto trace = read_trace(open_mooncake_trace, file.path(), 0);
  if (!trace) {
    FARPAGE_CHECK(trace.error().message.find(file.path()) != std::string::npos);
    return 0;
  }
  FARPAGE_CHECK(std::is_sorted(trace->requests.begin(), trace->requests.end(),
                               [](const TraceRequest& one, const TraceRequest& other) {
                                 return one.timestamp_ms < other.timestamp_ms;
                               }));
  return 0;
}
