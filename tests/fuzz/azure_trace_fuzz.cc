// A trace of anybody: refused with the file, or requests in the order of their times, of which none
// has a block of another.
#include <algorithm>

#include "base/check.h"
#include "replay/traces/azure_trace.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  const MemoryFile file(data, bytes);
  const auto trace = read_trace(open_azure_trace, file.path(), 0);
  if (!trace) {
    FARPAGE_CHECK(trace.error().message.find(file.path()) != std::string::npos);
    return 0;
  }
  FARPAGE_CHECK(std::ranges::is_sorted(trace->requests, {}, &TraceRequest::timestamp_ms));
  uint64_t next = 0;
  for (const TraceRequest& request : trace->requests) {
    FARPAGE_CHECK(std::ranges::all_of(request.hash_ids, [&](uint64_t id) { return id == next++; }));
  }
  return 0;
}
