#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "replay/traces/trace.h"

namespace farpage {

inline constexpr uint64_t kMaxSessionBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxSessions = 1 << 20;

// Sessions of coding agents (docs/formats/request-traces.md): a file of JSON each, or a file with a
// session a line; of a folder all such files, of which none may be packed but with gzip. They are
// put in the order of their times, as if they had begun together: in memory for one session as it
// is written, and for what is new in each request. An error names the file and the request.
Result<std::unique_ptr<RequestStream>> open_agent_trace(const std::string& path);
// The same, read once for any number of streams, each on its own thread.
Result<OpenRequests> keep_agent_trace(const std::string& path);

// Stops after `max_requests`; 0: reads them all.
Result<Trace> read_agent_trace(const std::string& path, uint64_t max_requests);

}  // namespace farpage
