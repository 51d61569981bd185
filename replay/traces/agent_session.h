#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "replay/traces/request_store.h"

namespace farpage {

inline constexpr int kMostNestedAgents = 32;

struct AgentSession {
  std::optional<uint64_t> block_tokens;
  bool has_times = true;  // or none of its requests tells when it came
};

// Adds the requests of one session (docs/formats/request-traces.md), and of the agents that it
// began, as session `number`. Errors say what is wrong and with which request, and not where.
Result<AgentSession> add_agent_session(simdjson::dom::element session, uint32_t number,
                                       RequestStore& requests);

}  // namespace farpage
