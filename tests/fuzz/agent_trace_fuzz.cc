// A session of anybody: refused with the file, or a list of requests in the order of their times.
#include <algorithm>

#include "base/check.h"
#include "replay/traces/agent_trace.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  const MemoryFile file(data, bytes);
  const auto trace = read_agent_trace(file.path(), 0);
  if (!trace) {
    FARPAGE_CHECK(trace.error().message.find(file.path()) != std::string::npos);
    return 0;
  }
  FARPAGE_CHECK(!trace->block_tokens || *trace->block_tokens > 0);
  FARPAGE_CHECK(std::ranges::is_sorted(trace->requests, {}, &TraceRequest::timestamp_ms));
  return 0;
}
