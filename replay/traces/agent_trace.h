#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "replay/traces/trace.h"

namespace farpage {

inline constexpr uint64_t kMaxSessionBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxSessions = 1 << 16;

// Sessions of coding agents: a file of JSON each, with `block_size` in tokens and `requests` of `t`
// in seconds since the session began, `in` and `out` in tokens, and `hash_ids`, which mean
// something within the session alone. Of a folder all that end in .json, as if they had begun
// together. Stops after `max_requests`; 0: reads them all. An error names the file and the request.
Result<Trace> read_agent_trace(const std::string& path, uint64_t max_requests);

}  // namespace farpage
